#pragma once

#include "exporters/outlook.h"

namespace dettax {

// Two projections, and a decision whose cheapest knobs are known.
inline Outlook sample_outlook() {
  Outlook outlook;
  for (const int64_t gpus : {1024, 16384}) {
    ProjectedStep step;
    step.model = "llama3.1-405b";
    step.precision = "bf16";
    step.layout = gpus == 1024 ? "dp8.tp8.pp16" : "dp128.tp8.pp16";
    step.cluster = "h100";
    step.device = "H100-SXM";
    step.mode = "megatron-det";
    step.gpus = gpus;
    step.fast_seconds = 17.5;
    step.deterministic_seconds = 18.3;
    step.tokens_per_second = 1e6;
    step.mfu_ratio = 0.4;
    step.memory_bytes = 70e9;
    step.device_memory_bytes = 85e9;
    step.tax = 0.044;
    step.p10 = 0.039;
    step.p50 = 0.044;
    step.p90 = 0.051;
    step.causes = {{"attention", "ordering", 0.03}, {"memory_fill", "framework", 0.01}};
    step.interaction = 0.004;
    outlook.projections.push_back(step);
  }
  DecisionOutlook answer;
  answer.inputs =
      load_decision_inputs("", {{"gpus", "4096"},
                                {"run_hours", "2160"},
                                {"overhead_ratio", "{value: 0.05, low: 0.04, high: 0.06}"}});
  answer.inputs.cheapest = KnobSubset{{"attention"}, 0.01, 0.008, 0.012, "case/deterministic", ""};
  answer.decision = decide(answer.inputs, 500, 1);
  outlook.decision = answer;
  return outlook;
}

}  // namespace dettax
