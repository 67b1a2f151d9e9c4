// Step times of the trainer on request: `step_bench MODEL BATCH SEQUENCE MODE THREADS`. Says on one line what a step is, then waits
// for lines `run N` on stdin and answers each with a JSON list of N step times in seconds. torch_gpt2.py speaks the same, so that
// compare_torch.py can alternate the two.

#include <chrono>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/plan/suite.h"
#include "harness/train/train_step.h"

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

void serve(const Case& planned, const Mode& mode) {
  const auto device = make_cpu_device(planned.topology.threads_per_rank, true);
  const auto group = make_thread_communicators(1, false);
  TrainStep train(planned, mode, *device, *group.front());
  train.reset(planned.seed);
  std::cout << fmt::format(R"({{"tokens": {}, "flops": {}, "program": "dettax {}"}})",
                           train.tokens_per_step(), train.flops_per_step(), mode.name)
            << std::endl;
  std::string word;
  for (int count = 0; std::cin >> word >> count && word == "run";) {
    std::string list;
    for (const double seconds : timed_steps(train, count))
      list += (list.empty() ? "" : ", ") + fmt::format("{}", seconds);
    std::cout << "[" << list << "]" << std::endl;
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
