#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

RowExchange begin_exchange(StepContext& c, Op op, std::string_view name, const Tensor& result) {
  RowExchange exchange;
  exchange.op = op;
  exchange.name = name;
  exchange.result = result;
  c.begin(op);
  c.device.synchronize();
  return exchange;
}

// Runs the operation to its end, or keeps what was started in the exchange.
template <typename Blocking, typename Start>
void carry_out(RowExchange& exchange, bool behind, const Blocking& blocking, const Start& start) {
  if (behind) {
    exchange.requests.push_back(start());
  } else {
    blocking();
  }
}

RowExchange gather(StepContext& c, std::string_view name, const Tensor& own, bool behind) {
  if (!sequence_parallel(c)) return {.op = {}, .name = name, .result = own, .requests = {}};
  const Tensor all = c.fresh(c.buffers.all_rows);
  RowExchange exchange = begin_exchange(c, Op::sequence_all_gather, name, all);
  Communicator& group = c.mesh.tensor();
  for (int64_t s = 0; s < c.segments; ++s) {
    const RowRange range = own_rows(c, s);
    const Tensor from = rows_of(own, range.here, range.count);
    float* to = rows_of(all, range.whole - group.rank() * range.count, range.count).f32();
    carry_out(
        exchange, behind, [&] { group.all_gather(from.data, to, from.bytes()); },
        [&] { return group.start_all_gather(from.data, to, from.bytes()); });
  }
  return exchange;
}

void scatter(StepContext& c, RowExchange& exchange, const Tensor& partial, bool behind) {
  Communicator& group = c.mesh.tensor();
  const Order order = c.knobs.collectives;
  for (int64_t s = 0; s < c.segments; ++s) {
    const RowRange range = own_rows(c, s);
    const float* from =
        rows_of(partial, range.whole - group.rank() * range.count, range.count).f32();
    const Tensor to = rows_of(exchange.result, range.here, range.count);
    carry_out(
        exchange, behind, [&] { group.reduce_scatter(from, to.f32(), to.count(), order); },
        [&] { return group.start_reduce_scatter(from, to.f32(), to.count(), order); });
  }
}

RowExchange add(StepContext& c, std::string_view name, const Tensor& partial, const Tensor& own,
                bool behind) {
  if (!tensor_parallel(c)) return {.op = {}, .name = name, .result = own, .requests = {}};
  if (sequence_parallel(c)) {
    c.fresh(own);
    RowExchange exchange = begin_exchange(c, Op::sequence_reduce_scatter, name, own);
    scatter(c, exchange, partial, behind);
    return exchange;
  }
  RowExchange exchange = begin_exchange(c, Op::tensor_all_reduce, name, own);
  Communicator& group = c.mesh.tensor();
  const Order order = c.knobs.collectives;
  carry_out(
      exchange, behind, [&] { group.all_reduce(own.f32(), own.count(), order); },
      [&] { return group.start_all_reduce(own.f32(), own.count(), order); });
  return exchange;
}

}  // namespace

Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  return make_tensor(t.f32() + first * t.columns(), t.type, {count, t.columns()});
}

bool tensor_parallel(const StepContext& c) { return c.mesh.layout().tp > 1; }
bool sequence_parallel(const StepContext& c) { return c.mesh.layout().sequence_parallel; }

RowRange own_rows(const StepContext& c, int64_t segment) {
  const int64_t whole = c.rows() / c.segments;
  if (!sequence_parallel(c)) return {segment * whole, segment * whole, whole};
  const int64_t count = whole / c.mesh.layout().tp;
  return {segment * count, segment * whole + c.mesh.position().tp * count, count};
}

const Tensor& finish(StepContext& c, RowExchange& exchange) {
  if (!exchange.requests.empty()) {
    c.begin(exchange.op);
    for (Request& request : exchange.requests) request.wait();
    // What was gathered is rounded already.
    const bool gathered = exchange.op == Op::sequence_all_gather;
    gathered ? c.show(exchange.name, exchange.result) : c.output(exchange.name, exchange.result);
  }
  return exchange.result;
}

RowExchange start_gathering(StepContext& c, std::string_view name, const Tensor& own) {
  RowExchange exchange = gather(c, name, own, c.knobs.overlap);
  if (exchange.requests.empty() && sequence_parallel(c)) c.show(name, exchange.result);
  return exchange;
}

Tensor gather_rows(StepContext& c, std::string_view name, const Tensor& own) {
  const RowExchange exchange = gather(c, name, own, false);
  if (sequence_parallel(c)) c.show(name, exchange.result);
  return exchange.result;
}

Tensor partial_output(const StepContext& c, const Tensor& own) {
  return sequence_parallel(c) ? c.buffers.all_rows : own;
}
Tensor partial_gradient(const StepContext& c, const Tensor& own) {
  return sequence_parallel(c) ? c.buffers.d_all_rows : own;
}

RowExchange start_adding(StepContext& c, std::string_view name, const Tensor& partial,
                         const Tensor& own) {
  RowExchange exchange = add(c, name, partial, own, c.knobs.overlap);
  if (exchange.requests.empty() && tensor_parallel(c)) c.output(name, own);
  return exchange;
}

void add_partials(StepContext& c, std::string_view name, const Tensor& partial, const Tensor& own) {
  add(c, name, partial, own, false);
  if (tensor_parallel(c)) c.output(name, own);
}

}  // namespace dettax
