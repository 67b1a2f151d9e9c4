// Step times of the trainer on request: `step_bench MODEL BATCH SEQUENCE MODE THREADS`. Says on one line what a step is, then answers
// lines on stdin: `run N` with a JSON list of N step times in seconds, `ops N` with an object of mean seconds a step by op, `peak N` with a
// list of N measurements of the FMA peak of as many threads in operations a second. torch_gpt2.py knows `run`, so that compare_torch.py
// can alternate the two.

#include <chrono>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/device/cpu/team.h"
#include "harness/plan/suite.h"
#include "harness/train/train_step.h"
#include "suites/kernels/fma_peak.h"

namespace dettax {
namespace {

Case planned_case(const char* const* arguments) {
  Case planned;
  planned.model = load_model(arguments[0]);
  planned.batch.micro = planned.batch.global = std::stoll(arguments[1]);
  planned.batch.sequence_length = std::stoll(arguments[2]);
  planned.topology.threads_per_rank = std::stoi(arguments[4]);
  return planned;
}

std::vector<double> timed_steps(TrainStep& train, int count) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    train.step();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

// Seconds between the begin of an op and that of the next, by the last word of the op's path: on a CPU an
// op is done when its call returns.
class OpTimer : public StepObserver {
 public:
  void on_op(std::string_view path) override {
    end_op();
    current_ = path.substr(path.rfind('/') + 1);
    start_ = std::chrono::steady_clock::now();
  }
  void on_tensor(std::string_view, std::string_view, const Tensor&, uint64_t) override {}
  void end_op() {
    if (current_.empty()) return;
    seconds_[current_] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    current_.clear();
  }
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  std::string current_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, double> seconds_;
};

std::map<std::string, double> seconds_by_op(TrainStep& train, int steps) {
  OpTimer timer;
  train.observe(&timer);
  for (int i = 0; i < steps; ++i) {
    train.step();
    timer.end_op();
  }
  train.observe(nullptr);
  std::map<std::string, double> mean = timer.seconds();
  for (auto& [op, seconds] : mean) seconds /= steps;
  return mean;
}

std::vector<double> peaks(int threads, int count) {
  Team team(threads, true);
  std::vector<double> rates;
  for (int i = 0; i < count; ++i) rates.push_back(peak_flops_per_second(team));
  return rates;
}

std::string answer(TrainStep& train, int threads, const std::string& word, int count) {
  if (word == "run") return nlohmann::json(timed_steps(train, count)).dump();
  if (word == "ops") return nlohmann::json(seconds_by_op(train, count)).dump();
  if (word == "peak") return nlohmann::json(peaks(threads, count)).dump();
  throw Error(ErrorKind::usage, "no request '" + word + "'; there are run, ops and peak");
}

void serve(const Case& planned, const Mode& mode) {
  const auto device = make_cpu_device(planned.topology.threads_per_rank, true);
  const auto group = make_thread_communicators(1, false);
  TrainStep train(planned, mode, *device, *group.front());
  train.reset(planned.seed);
  std::cout << fmt::format(R"({{"tokens": {}, "flops": {}, "program": "dettax {}"}})"
                           "\n",
                           train.tokens_per_step(), train.flops_per_step(), mode.name)
            << std::flush;
  std::string word;
  for (int count = 0; std::cin >> word >> count;) {
    std::cout << answer(train, planned.topology.threads_per_rank, word, count) << "\n"
              << std::flush;
  }
}

}  // namespace
}  // namespace dettax

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: step_bench MODEL BATCH SEQUENCE MODE THREADS\n";
    return 2;
  }
  try {
    dettax::serve(dettax::planned_case(arguments + 1), dettax::load_mode(arguments[4]));
  } catch (const std::exception& error) {
    std::cerr << "step_bench: " << error.what() << "\n";
    return 70;
  }
  return 0;
}
