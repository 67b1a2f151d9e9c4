#include "suites/kernels/ops_bench.h"

namespace dettax {

void add_embedding(const StepShape& s) {
  const int64_t calls = StepCalls(s).ends;
  const bool learned = !s.of_case || !s.rope;
  const int64_t bytes = 4 * s.rows() * s.width;
  add_benchmark("embedding_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto ids = zipf_ids(s);
    auto table = cold(s.vocabulary, s.width);
    auto positions = cold(s.tokens, s.width);
    auto y = cold(s.rows(), s.width);
    return Work{[=, &ops] {
                  ops.embedding_forward({.y = y->next(),
                                         .tokens = tensor(*ids),
                                         .table = table->next(),
                                         .position_table = learned ? positions->next() : Tensor{},
                                         .samples = s.samples});
                },
                2 * bytes, calls};
  });
  for (const bool generic : {false, true}) {
    const MakeWork backward = [=](CpuOps& ops, const SumOrder& sum) {
      auto ids = zipf_ids(s);
      auto table = cold(s.vocabulary, s.width);
      auto positions = cold(s.tokens, s.width);
      auto dy = cold(s.rows(), s.width);
      return Work{
          [=, &ops] {
            ops.embedding_backward({.dtable = table->next(),
                                    .dposition_table = learned ? positions->next() : Tensor{},
                                    .dy = dy->next(),
                                    .tokens = tensor(*ids),
                                    .samples = s.samples,
                                    .sum = sum,
                                    .generic = generic});
          },
          3 * bytes, calls};
    };
    const std::string name = "embedding_backward/" + s.model;
    if (generic) {
      add_benchmark(name + "/generic", backward);
    } else {
      add_variants(name, backward);
    }
  }
}

}  // namespace dettax
