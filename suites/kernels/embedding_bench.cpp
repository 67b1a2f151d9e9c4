#include "suites/kernels/ops_bench.h"

namespace dettax {

void add_embedding(const StepShape& s) {
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
                                         .position_table = positions->next(),
                                         .samples = s.samples});
                },
                2 * bytes};
  });
  for (const bool generic : {false, true}) {
    const MakeWork backward = [=](CpuOps& ops, const SumOrder& sum) {
      auto ids = zipf_ids(s);
      auto table = cold(s.vocabulary, s.width);
      auto positions = cold(s.tokens, s.width);
      auto dy = cold(s.rows(), s.width);
      return Work{[=, &ops] {
                    ops.embedding_backward({.dtable = table->next(),
                                            .dposition_table = positions->next(),
                                            .dy = dy->next(),
                                            .tokens = tensor(*ids),
                                            .samples = s.samples,
                                            .sum = sum,
                                            .generic = generic});
                  },
                  3 * bytes};
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
