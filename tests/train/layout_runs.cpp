#include "layout_runs.h"

#include <cmath>
#include <mutex>

namespace dettax::testing_support {
namespace {

void take(std::map<std::string, std::vector<float>>& wholes, const TrainStep::Parameter& p,
          const Tensor& tensor) {
  std::vector<float>& whole = wholes[p.name];
  whole.resize(static_cast<size_t>(p.spec->whole_count()));
  for (int64_t i = 0; i < tensor.count();) {
    const Run run = run_at(*p.spec, p.first + i);
    const int64_t count = std::min(run.count, tensor.count() - i);
    std::copy_n(tensor.f32() + i, count, whole.begin() + run.whole_index);
    i += count;
  }
}

double relative_distance(const std::vector<float>& expected, const std::vector<float>& found) {
  double length = 0;
  double distance = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]);
    const double d = e - static_cast<double>(found[i]);
    length += e * e;
    distance += d * d;
  }
  return std::sqrt(distance / (length > 0 ? length : 1));
}

std::string compare_numbers(const char* what, const std::vector<float>& expected,
                            const std::vector<float>& found) {
  for (size_t r = 0; r < found.size(); ++r) {
    if (found[r] != found.front())
      return std::string(what) + " of rank " + std::to_string(r) + " is another";
  }
  const double difference = std::abs(static_cast<double>(expected.front() - found.front()));
  if (difference < 1e-5 * std::abs(static_cast<double>(expected.front()))) return "";
  return std::string(what) + " " + std::to_string(found.front()) + " instead of " +
         std::to_string(expected.front());
}

std::string compare_tensors(const char* what,
                            const std::map<std::string, std::vector<float>>& expected,
                            const std::map<std::string, std::vector<float>>& found,
                            double tolerance) {
  if (expected.size() != found.size()) return std::string("another number of ") + what + "s";
  for (const auto& [name, values] : expected) {
    const double distance = relative_distance(values, found.at(name));
    if (!(distance < tolerance))
      return std::string(what) + " of " + name + " off by " + std::to_string(distance);
  }
  return "";
}

}  // namespace

Case on_layout(Case planned, const Layout& layout) {
  planned.layout = layout;
  planned.topology.threads_per_rank = layout.ranks() > 1 ? 1 : planned.topology.threads_per_rank;
  return planned;
}

std::vector<WholeStep> whole_steps(const Case& planned, const Mode& mode, int steps,
                                   const std::function<void(RankRun&)>& disturb) {
  std::vector<WholeStep> whole(static_cast<size_t>(steps));
  std::mutex mutex;
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    if (disturb) disturb(rank);
    for (WholeStep& step : whole) {
      const StepResult result = rank.train.step();
      const std::lock_guard lock(mutex);
      step.losses.push_back(result.loss);
      step.norms.push_back(result.gradient_norm);
      for (const auto& p : rank.train.parameters()) {
        take(step.gradients, p, p.gradient);
        take(step.values, p, p.value);
      }
    }
  });
  return whole;
}

std::string disagreement(const std::vector<WholeStep>& expected,
                         const std::vector<WholeStep>& found, double tolerance) {
  for (size_t s = 0; s < expected.size(); ++s) {
    for (const std::string& difference :
         {compare_numbers("loss", expected[s].losses, found[s].losses),
          compare_numbers("gradient norm", expected[s].norms, found[s].norms),
          compare_tensors("gradient", expected[s].gradients, found[s].gradients, tolerance),
          compare_tensors("value", expected[s].values, found[s].values, tolerance)}) {
      if (!difference.empty()) return "step " + std::to_string(s) + ": " + difference;
    }
  }
  return "";
}

}  // namespace dettax::testing_support
