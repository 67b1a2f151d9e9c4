// The border between the program and the CUDA plug-in, with a library that plays the driver, and with the real plug-in on a machine
// that has none.

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "harness/device/cuda_presence.h"
#include "harness/device/dynamic_library.h"

namespace dettax::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Variable() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

CudaLibraries fakes() { return {FAKE_CUDA, FAKE_CUDA, FAKE_CUDA}; }

TEST(CudaPresence, IsCompleteWhereEverythingAnswers) {
  const CudaPresence presence = find_cuda(fakes());
  EXPECT_THAT(presence.missing, IsEmpty());
  EXPECT_EQ(presence.found,
            "2 devices, driver for CUDA 12.8 (570.1, Fake H200); CUDA part made for CUDA 1, sm_2");
}

TEST(CudaPresence, NamesTheDriverThatDoesNotAnswer) {
  CudaLibraries libraries = fakes();
  libraries.driver = "libno_such_driver.so.1";
  const CudaPresence presence = find_cuda(libraries);
  EXPECT_THAT(presence.missing, AllOf(StartsWith("no NVIDIA driver answers: "),
                                      HasSubstr("libno_such_driver.so.1: cannot open")));
  EXPECT_THAT(presence.found, IsEmpty());
  libraries.driver = "libm.so.6";
  EXPECT_THAT(find_cuda(libraries).missing, StartsWith("libm.so.6 is no CUDA driver"));
}

TEST(CudaPresence, SaysWhyADriverThatIsThereHasNoDevices) {
  {
    const Variable result("FAKE_CUDA_INIT", "802");
    EXPECT_EQ(find_cuda(fakes()).missing,
              "the NVIDIA driver does not start: system not yet initialized");
  }
  {
    const Variable result("FAKE_CUDA_INIT", "999");
    EXPECT_EQ(find_cuda(fakes()).missing, "the NVIDIA driver does not start: error 999");
  }
  const Variable devices("FAKE_CUDA_DEVICES", "0");
  EXPECT_THAT(find_cuda(fakes()).missing, HasSubstr("see CUDA_VISIBLE_DEVICES"));
}

TEST(CudaPresence, GoesOnWithoutNvml) {
  CudaLibraries libraries = fakes();
  libraries.management = "libno_such_nvml.so.1";
  EXPECT_THAT(find_cuda(libraries).missing, IsEmpty());
  EXPECT_THAT(find_cuda(libraries).found, HasSubstr("without NVML"));
  const Variable refuses("FAKE_CUDA_NVML", "9");
  EXPECT_THAT(find_cuda(fakes()).found, HasSubstr("without NVML"));
}

TEST(CudaPresence, NamesThePluginThatIsMissingOrDoesNotFit) {
  CudaLibraries libraries = fakes();
  libraries.plugin = "";
  EXPECT_THAT(find_cuda(libraries).missing,
              HasSubstr("there is no libdettax_cuda.so beside the program"));
  EXPECT_THAT(find_cuda(libraries).found, StartsWith("2 devices"));
  libraries.plugin = "/proc/self/exe";
  EXPECT_THAT(find_cuda(libraries).missing, StartsWith("the CUDA part cannot be loaded: "));
  {
    const Variable other("FAKE_CUDA_OTHER_BUILD", "1");
    EXPECT_THAT(find_cuda(fakes()).missing, HasSubstr("is of another build of dettax"));
  }
  const Variable fault("FAKE_CUDA_FAULT", "the device is of another kind");
  EXPECT_EQ(find_cuda(fakes()).missing, "the device is of another kind");
}

std::string message_of(const CudaLibraries& libraries) {
  try {
    load_cuda_device(3, libraries);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(CudaPresence, HandsOverWhatThePluginMakesOrThrows) {
  EXPECT_EQ(message_of(fakes()), "CUDA: no device 3 is played");
  CudaLibraries libraries = fakes();
  libraries.plugin = "";
  EXPECT_THAT(message_of(libraries), StartsWith("backend cuda: this build has no CUDA part"));
}

#if defined(CUDA_PLUGIN)
// It must load where there is no driver, and say what the CUDA runtime finds.
TEST(CudaPlugin, LoadsWithoutADriverAndSaysSo) {
  const DynamicLibrary plugin(CUDA_PLUGIN);
  ASSERT_TRUE(plugin) << plugin.error();
  auto* entry = plugin.function<CudaPluginEntry>(kCudaPluginEntry);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry()->version, kCudaPluginVersion);
  EXPECT_STREQ(entry()->build, DETTAX_VERSION);
  EXPECT_THAT(entry()->made_for, HasSubstr("sm_"));
  std::array<char, 512> sentence{};
  entry()->write_fault(sentence.data(), sentence.size());
  if (DynamicLibrary("libcuda.so.1")) GTEST_SKIP() << "a driver is here: " << sentence.data();
  EXPECT_THAT(sentence.data(), StartsWith("the CUDA runtime finds no device: "));
  std::array<char, 8> cut{};
  entry()->write_fault(cut.data(), cut.size());
  EXPECT_STREQ(cut.data(), "the CUD");
  EXPECT_THAT(message_of({{}, {}, CUDA_PLUGIN}), StartsWith("CUDA: cudaSetDevice: "));
}
#endif

}  // namespace
}  // namespace dettax::test
