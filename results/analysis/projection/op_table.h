#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/analysis/projection/collective_cost.h"
#include "results/record.h"

namespace dettax {

// Measured times of operations on one device: what dettax's kernel suites print, or a table of the same columns from elsewhere. A time is
// asked for by operation, precision, mode and shape; between shapes it is interpolated, by the work they stand for.
//
// CSV columns: op, precision, mode, m, n, k, seconds. What m, n and k mean:
//   gemm, weight_product    rows, columns, depth: work 2 m n k FLOP; weight_product is that of a weight's gradient
//   attention_forward       tokens, length of the sequence, heads x head width: work 2 m n k FLOP, causal
//   attention_backward      the same shape: work 5 m n k
//   elementwise and others  m = bytes that are moved; n and k are 1
//   all_reduce, all_gather, reduce_scatter, all_to_all, point_to_point
//                           m = bytes of the whole buffer, n = ranks, k = of them in one fast-link domain; the precision is not looked at
// Modes: fast, ordered, invariant, and generic for framework-style index operations.
class OpTable {
 public:
  static OpTable read_csv(const std::string& path);
  // The JSON that a Google Benchmark program writes: benchmarks whose names are those of dettax's kernel suites; others are left out.
  static OpTable read_benchmark_json(const std::string& path);
  // Kernels and collectives that runs measured alone (dettax run --kernels). Throws Error{config} that begins with `source` if none did.
  static OpTable of_records(const std::vector<Record>& records, const std::string& source);
  // CSV, JSON of Google Benchmark, or a record.
  static OpTable read(const std::string& path);

  // Of several readings of the same work the shortest counts: it was disturbed least.
  void add(const std::string& op, const std::string& precision, const std::string& mode,
           double work, double seconds);
  void add_collective(const std::string& op, const std::string& mode, const GroupShape& group,
                      double bytes, double seconds);
  bool has_collectives() const { return !groups_.empty(); }
  // The groups that a collective was measured in, in any mode.
  std::vector<GroupShape> groups(std::string_view op) const;
  // In one of groups(op). Where the mode or the fast one was not measured, the other serves both: no difference arises from what is
  // missing.
  std::optional<double> collective_seconds(std::string_view op, std::string_view mode,
                                           const GroupShape& group, double bytes) const;
  // Time of a variant over that of another, mean of logarithms over the works that both were measured at; nothing if there are none.
  std::optional<double> ratio(std::string_view op, std::string_view precision,
                              std::string_view variant, std::string_view against) const;
  // Nothing if the operation was never measured in that precision and mode. Outside the measured range the rate of the nearest reading
  // holds.
  std::optional<double> seconds(std::string_view op, std::string_view precision,
                                std::string_view mode, double work) const;
  bool empty() const { return readings_.empty(); }
  size_t size() const;
  // The operations of these that are not there, for a message.
  std::vector<std::string> missing(const std::vector<std::string>& ops, std::string_view precision,
                                   std::string_view mode) const;

 private:
  // Work in rising order.
  std::map<std::string, std::map<double, double>> readings_;
  std::map<std::string, std::vector<GroupShape>, std::less<>> groups_;
};

// "fast", "ordered", "invariant".
std::string_view order_word(Order order);
bool is_collective(std::string_view op);
double op_work(std::string_view op, double m, double n, double k);

}  // namespace dettax
