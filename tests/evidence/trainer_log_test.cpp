// Cases mode-01 and mode-02: what a trainer says of operations without a deterministic version.
#include "harness/evidence/trainer_log.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TrainerLog read(const std::string& text) {
  std::istringstream in(text);
  return read_trainer_log(in, "stderr.log");
}

std::string iteration(int64_t number) {
  return " iteration        " + std::to_string(number) +
         "/     100 | elapsed time per iteration (ms): 231.4 | lm loss: 7.123457E+00 |\n";
}

constexpr const char* kException =
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]:   File \"/opt/train/pretrain.py\", line 12, in <module>\n"
    "[rank0]:   File \"/opt/train/model/moe/combine.py\", line 88, in forward\n"
    "[rank0]:     return out.scatter_add_(0, index, tokens)\n"
    "[rank0]:   File \"/usr/lib/python3/site-packages/torch/_tensor.py\", line 40, in wrapped\n"
    "[rank0]: RuntimeError: scatter_add_cuda_kernel does not have a deterministic implementation, "
    "but you set 'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for "
    "this operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
    "application.\n";

constexpr const char* kWarning =
    "/opt/train/model/moe/combine.py:88: UserWarning: scatter_add_cuda_kernel does not have a "
    "deterministic implementation, but you set 'torch.use_deterministic_algorithms(True, "
    "warn_only=True)'. You can file an issue to help us prioritize adding deterministic support.\n";

TEST(Mode02, AnExceptionIsNotRunnableDeterministicallyWithOpStepAndPlace) {
  const TrainerLog log = read(iteration(1) + iteration(2) + kException);
  ASSERT_TRUE(log.refused);
  EXPECT_EQ(log.refused->op, "scatter_add_cuda_kernel");
  EXPECT_EQ(log.refused->step, 3);
  EXPECT_EQ(log.refused->place, "moe/combine.py:88 forward");
  const Verdict verdict = judge_trainer_log(log);
  EXPECT_EQ(verdict.status, Status::fail);
  EXPECT_EQ(verdict.reason_code, "not_runnable_deterministically");
  EXPECT_EQ(verdict.exit_code, 5);
  EXPECT_THAT(verdict.reason, HasSubstr("it ended step 3, at moe/combine.py:88 forward"));
}

TEST(Mode02, AnExceptionThatNamesStepAndLayerIsTakenAtItsWord) {
  const TrainerLog log = read(
      iteration(7) +
      "RuntimeError: scatter_add_ does not have a deterministic implementation at step 3 in layer "
      "moe.combine, but you set 'torch.use_deterministic_algorithms(True)'\n");
  EXPECT_EQ(log.refused->op, "scatter_add_");
  EXPECT_EQ(log.refused->step, 3);
  EXPECT_EQ(log.refused->place, "moe.combine");
}

TEST(Mode02, EveryRanksExceptionIsOne) {
  const TrainerLog log = read(std::string(kException) + kException);
  EXPECT_EQ(log.refused->step, std::nullopt);  // no step was reported
  EXPECT_THAT(judge_trainer_log(log).reason, testing::Not(HasSubstr("step")));
}

TEST(Mode02, AWarningLeavesOneOpUnprotectedHoweverOftenItIsGiven) {
  std::string text;
  for (int64_t step = 1; step <= 3; ++step) {
    for (int i = 0; i < 4; ++i) text += kWarning;
    text += iteration(step);
  }
  const TrainerLog log = read(text);
  EXPECT_FALSE(log.refused);
  ASSERT_THAT(log.unprotected, SizeIs(1));
  EXPECT_EQ(log.unprotected[0].op, "scatter_add_cuda_kernel");
  EXPECT_EQ(log.unprotected[0].warnings, 12);
  const Verdict verdict = judge_trainer_log(log);
  EXPECT_EQ(verdict.reason_code, "unprotected_op");
  EXPECT_EQ(verdict.exit_code, 5);
  EXPECT_THAT(verdict.reason, HasSubstr("ran, but 1 op is unprotected: scatter_add_cuda_kernel "
                                        "(warned of 4 times a step"));
}

TEST(Mode02, TwoOpsAreTwo) {
  const TrainerLog log =
      read(std::string(kWarning) +
           "UserWarning: cumsum_cuda_kernel does not have a deterministic implementation, but you "
           "set 'torch.use_deterministic_algorithms(True, warn_only=True)'.\n");
  EXPECT_THAT(log.unprotected, SizeIs(2));
  EXPECT_THAT(judge_trainer_log(log).reason, HasSubstr("2 ops are unprotected"));
}

TEST(Mode02, ALogWithoutSuchLinesIsNoPass) {
  const Verdict verdict = judge_trainer_log(read(iteration(1) + iteration(2)));
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason_code, "no_evidence_in_log");
}

TEST(Mode02, AnEmptyLogIsAnError) { EXPECT_THROW(read(""), Error); }

TEST(Mode01, TheChildsExceptionNamesTheMatmulAndTheVariable) {
  const TrainerLog log = read(
      "RuntimeError: Deterministic behavior was enabled with either "
      "`torch.use_deterministic_algorithms(True)` or "
      "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic "
      "because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this "
      "case, you must set an environment variable before running your PyTorch application: "
      "CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8.\n");
  const Verdict verdict = judge_trainer_log(log);
  EXPECT_EQ(verdict.reason_code, "not_runnable_deterministically");
  EXPECT_THAT(verdict.reason, HasSubstr("matrix multiplication (cuBLAS): CUBLAS_WORKSPACE_CONFIG "
                                        "was not :4096:8 or :16:8"));
  EXPECT_EQ(verdict.reason.find('\n'), std::string::npos);
}

std::string start_from(int64_t step) {
  const std::string number = std::to_string(step);
  return " loading checkpoint from /data/ckpt at iteration " + number +
         "\n  successfully loaded checkpoint from /data/ckpt [ t 0/1, p 0/1 ] at iteration " +
         number + "\n";
}

// As the line of nan-01: the loss is not there.
std::string nan_iteration(int64_t number) {
  return " iteration        " + std::to_string(number) +
         "/    2000 | elapsed time per iteration (ms): 230.2 | loss scale: 1.0 | grad norm: nan | "
         "number of skipped iterations:   0 | number of nan iterations:   0 |\n";
}

std::string attempt(int64_t from, int64_t good) {
  std::string text = start_from(from);
  for (int64_t step = from + 1; step <= from + good; ++step) text += iteration(step);
  return text + nan_iteration(from + good + 1) + nan_iteration(from + good + 2);
}

// cases/nan.md, nan-03.
TEST(Case, Nan03TheSameNanAfterEachLoadOfACheckpointIsALoop) {
  const TrainerLog log =
      read(iteration(119) + iteration(120) + attempt(120, 2) + attempt(120, 2) + attempt(120, 2));
  ASSERT_THAT(log.loads, SizeIs(3));
  EXPECT_EQ(log.loads[0].nan_step, 123);
  const Verdict verdict = judge_trainer_log(log);
  EXPECT_EQ(verdict.reason_code, "restart_loop");
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_THAT(verdict.reason, HasSubstr("same NaN at +3 after each of 3 loads of 120: "
                                        "deterministic, suspect the checkpoint; stop"));
  EXPECT_THAT(verdict.reason, HasSubstr("after 3"));
}

TEST(Case, Nan03WhatIsNoLoopIsNotCalledOne) {
  EXPECT_NE(judge_trainer_log(read(attempt(120, 2) + attempt(120, 2))).reason_code, "restart_loop")
      << "twice may be chance";
  const std::string healthy = start_from(120) + iteration(121) + iteration(122) + iteration(123);
  EXPECT_NE(judge_trainer_log(read(healthy + healthy + healthy)).reason_code, "restart_loop");
  EXPECT_NE(
      judge_trainer_log(read(attempt(120, 2) + attempt(100, 2) + attempt(120, 2))).reason_code,
      "restart_loop")
      << "it went back to another checkpoint meanwhile";
  EXPECT_NE(judge_trainer_log(read(attempt(120, 2) + attempt(120, 2) + attempt(120, 2) + healthy))
                .reason_code,
            "restart_loop")
      << "the last start is past it";
}

TEST(Case, Nan03NansAtOtherStepsAreNotLaidToTheCheckpoint) {
  const Verdict verdict =
      judge_trainer_log(read(attempt(120, 2) + attempt(120, 5) + attempt(120, 1)));
  EXPECT_EQ(verdict.reason_code, "restart_loop");
  EXPECT_THAT(verdict.reason, HasSubstr("not at the same step: a race"));
}

TEST(TrainerLog, ReadsLoadsAndNansOfOtherTrainers) {
  const TrainerLog log = read(
      "[rank0]: Loading checkpoint from /x/global_step120/mp_rank_00_model_states.pt\n"
      "[rank1]: Loading checkpoint from /x/global_step120/mp_rank_01_model_states.pt\n"
      "step: 121 loss: 7.1 iter time (s): 0.2\nstep: 122 loss: NaN iter time (s): 0.2\n");
  ASSERT_THAT(log.loads, SizeIs(1));
  EXPECT_EQ(log.loads[0].step, 120);
  EXPECT_EQ(log.loads[0].nan_step, 122);
}

TEST(Case, Nan03ALoopThatSomebodyGotOutOfIsStillTold) {
  const std::string loop = attempt(120, 2) + attempt(120, 2) + attempt(120, 2);
  const std::string healthy = start_from(100) + iteration(101) + iteration(140);
  const Verdict left = judge_trainer_log(read(loop + healthy));
  EXPECT_EQ(left.reason_code, "restart_loop");
  EXPECT_THAT(left.reason, HasSubstr("same NaN at +3 after each of 3 loads of 120: "));
  EXPECT_THAT(left.reason, HasSubstr(" A later start, from 100, went on to step 140 without one."));
  const Verdict not_left = judge_trainer_log(read(loop + attempt(100, 5)));
  EXPECT_EQ(not_left.reason_code, "restart_loop");
  EXPECT_THAT(not_left.reason, HasSubstr(" The last start, from 100, came to a NaN in step 106."));
  const Verdict begun = judge_trainer_log(read(loop + start_from(120)));
  EXPECT_EQ(begun.reason_code, "restart_loop");
  EXPECT_THAT(begun.reason, HasSubstr(" The last start, from 120, tells no step."));
  EXPECT_NE(judge_trainer_log(read(attempt(120, 2) + attempt(120, 2) + healthy)).reason_code,
            "restart_loop")
      << "twice may be chance";
}

TEST(TrainerLog, ReadsTheStepOfACheckpointAsTrainersNameIt) {
  for (const char* line :
       {"[rank0]:[titan] 2026-11-02 10:00:00,000 - root - INFO - Loading the checkpoint from "
        "outputs/checkpoint/step-120.\n",
        "Loading model from outputs/checkpoint-120.\n", "Loaded checkpoint /x/step_120/state.pt\n",
        "Resuming from checkpoint /x/checkpoint-7/global_step_120\n"}) {
    const TrainerLog log = read(line);
    ASSERT_THAT(log.loads, SizeIs(1)) << line;
    EXPECT_EQ(log.loads[0].step, 120) << line;
  }
  EXPECT_THAT(read("Finished loading the checkpoint in 2.34 seconds.\n").loads, SizeIs(0));
  EXPECT_THAT(read("Saving the checkpoint to outputs/checkpoint/step-120.\n").loads, SizeIs(0));
}

TEST(Case, Nan03ALoopOfTorchtitanIsFound) {
  const std::string start =
      "[rank0]: Loading the checkpoint from outputs/checkpoint/step-120.\n"
      "[rank0]: Finished loading the checkpoint in 2.34 seconds.\n"
      "[rank0]: step: 121  loss:  7.1021  grad_norm: 1.31  memory: 9.12GiB(9.6%)\n"
      "[rank0]: step: 122  loss:  nan  grad_norm: nan  memory: 9.12GiB(9.6%)\n";
  const Verdict verdict = judge_trainer_log(read(start + start + start));
  EXPECT_EQ(verdict.reason_code, "restart_loop");
  EXPECT_THAT(verdict.reason, HasSubstr("same NaN at +2 after each of 3 loads of 120"));
}

TEST(TrainerLog, TakesNoWordForANumberThatIsNone) {
  const auto nan_step = [](const std::string& rest) {
    const TrainerLog log = read(start_from(120) + "step: 121 " + rest + "\n");
    return log.loads.at(0).nan_step;
  };
  for (const char* none : {"load_balancing_loss: 1 | info loss: infra ok", "loss: nanny 1",
                           "loss: information", "loss: nan_count 0", "loss: 7.1"})
    EXPECT_EQ(nan_step(none), std::nullopt) << none;
  for (const char* one : {"loss: nan", "loss: NaN | x", "loss: -nan", "loss=inf,", "loss: Infinity",
                          "loss: -inf", "grad norm: nan(0x7ff)"})
    EXPECT_EQ(nan_step(one), 121) << one;
}

}  // namespace
}  // namespace dettax
