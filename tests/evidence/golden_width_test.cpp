// The golden file of the repository, on every vector width this machine has.
#include <fstream>

#include <gtest/gtest.h>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/evidence/ledger.h"
#include "harness/plan/suite.h"
#include "hwy/detect_targets.h"
#include "hwy/targets.h"

namespace dettax {
namespace {

class Width {
 public:
  explicit Width(int64_t targets) { choose(targets); }
  ~Width() { choose(0); }
  Width(const Width&) = delete;
  Width& operator=(const Width&) = delete;

 private:
  static void choose(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
};

Ledger golden() {
  const std::string path = DETTAX_SOURCE_DIR "/tests/golden/control.ledger";
  std::ifstream in(path, std::ios::binary);
  return read_ledger(in, path);
}

LedgerComparison repeated() {
  const Ledger expected = golden();
  const Suite suite = load_suite(DETTAX_SOURCE_DIR "/suites/golden.yaml");
  const Case& planned = suite.cases.front();
  Ledger ledger = expected;
  run_ranks(planned.layout.ranks(), false, [&](Communicator& communicator) {
    const auto device = make_cpu_device(planned.topology.threads_per_rank, false);
    TrainStep step(planned, suite.modes.front(), *device, communicator);
    ledger.ranks[static_cast<size_t>(communicator.rank())] =
        record_ledger(step, *device, planned.seed, suite.evidence.steps);
  });
  return compare_ledgers(expected, ledger);
}

TEST(GoldenRun, HasTheSameBitsOnEveryVectorWidth) {
  const LedgerComparison widest = repeated();
  EXPECT_TRUE(widest.equal) << widest.description;
#if HWY_ARCH_X86
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) return;
  const Width narrow(HWY_AVX2);
  const LedgerComparison narrower = repeated();
  EXPECT_TRUE(narrower.equal) << narrower.description;
#endif
}

// The emulation has no fused multiply-add; that its bits are seen shows that widths really change above.
TEST(GoldenRun, SeesTheEmulation) {
  const Width none(HWY_SCALAR);
  if ((hwy::SupportedTargets() & ~int64_t{HWY_SCALAR}) != 0) GTEST_SKIP();
  EXPECT_FALSE(repeated().equal);
}

}  // namespace
}  // namespace dettax
