// The job files that users start from.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/job.h"
#include "harness/plan/yaml.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::read_text;

const std::filesystem::path kFolder =
    std::filesystem::path(DETTAX_SOURCE_DIR) / "configs" / "clusters" / "templates";

const Yaml& at(const Yaml& node, std::initializer_list<const char*> path) {
  const Yaml* here = &node;
  for (const char* key : path) {
    const Yaml* next = here->find(key);
    if (next == nullptr) throw std::runtime_error(std::string("no key ") + key);
    here = next;
  }
  return *here;
}

TEST(Templates, BatchScriptsAreShellThatParses) {
  int scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".sbatch") continue;
    ++scripts;
    const std::string command = "bash -n " + entry.path().string();
    EXPECT_EQ(std::system(command.c_str()), 0)  // NOLINT(concurrency-mt-unsafe): one thread
        << entry.path();
    const std::string text = read_text(entry.path());
    EXPECT_TRUE(text.starts_with("#!/bin/bash\n")) << entry.path();
    // Slurm stops reading at the first command.
    EXPECT_LT(text.rfind("\n#SBATCH"), text.find("\nset -u")) << entry.path();
    EXPECT_THAT(text, HasSubstr("--output=%x-%")) << entry.path();
  }
  EXPECT_EQ(scripts, 3);
}

TEST(Templates, TheHostFileIsReadAsMpirunReadsIt) {
  const auto hosts = parse_hostfile(read_text(kFolder / "hosts.txt"), "hosts.txt");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0], (HostSlots{"node1", 4}));
}

TEST(Templates, TheKubernetesJobIsAnIndexedJobThatRetriesNothing) {
  const Yaml job = read_yaml((kFolder / "kubernetes.yaml").string());
  EXPECT_EQ(at(job, {"apiVersion"}).text, "batch/v1");
  EXPECT_EQ(at(job, {"kind"}).text, "Job");
  EXPECT_EQ(at(job, {"spec", "completionMode"}).text, "Indexed");
  EXPECT_EQ(at(job, {"spec", "backoffLimit"}).text, "0");
  const Yaml& pod = at(job, {"spec", "template", "spec"});
  EXPECT_EQ(at(pod, {"restartPolicy"}).text, "Never");
  const Yaml& container = at(pod, {"containers"}).items.at(0);
  EXPECT_EQ(at(container, {"command"}).items.at(1).text, "run");
  EXPECT_EQ(at(container, {"resources", "requests", "cpu"}).text,
            at(container, {"resources", "limits", "cpu"}).text);
}

}  // namespace
}  // namespace dettax
