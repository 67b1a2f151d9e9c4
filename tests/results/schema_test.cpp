#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "results/run_folder.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

// A validator that is not ours: python3-jsonschema, which is on the package list.
int python(const std::string& code) {
  return std::system(("/usr/bin/python3 -c \"" + code + "\"").c_str());
}

class RecordSchema : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(python("import jsonschema"), 0)
        << "install python3-jsonschema (it is on the package list): the schema is checked with it";
    folder_ =
        std::filesystem::temp_directory_path() / ("dettax-schema-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // 0: valid; 7: not; anything else: the check itself went wrong.
  int check(const std::string& json) {
    write_file_atomically(folder_ / "case.json", json);
    const int status = python(
        "import json, jsonschema, sys\n"
        "schema = json.load(open('" DETTAX_SOURCE_DIR
        "/results/record.schema.json'))\n"
        "validator = jsonschema.validators.validator_for(schema)\n"
        "validator.check_schema(schema)\n"
        "errors = list(validator(schema).iter_errors(json.load(open('" +
        (folder_ / "case.json").string() +
        "'))))\n"
        "[print('/'.join(map(str, e.absolute_path)), e.message[:200]) for e in errors[:5]]\n"
        "sys.exit(7 if errors else 0)");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::filesystem::path folder_;
};

TEST_F(RecordSchema, FitsWhatIsWritten) {
  EXPECT_EQ(check(to_json(sample_record())), 0);
  EXPECT_EQ(check(to_json(record_with_causes())), 0);
  EXPECT_EQ(check(to_json(record_with_kernels())), 0);
  EXPECT_EQ(check(to_json(Record{})), 0) << "an empty record is still of the right form";
}

TEST_F(RecordSchema, FitsARecordWithMissingNumbers) {
  Record record = sample_record();
  record.taxes[0].control_ratio.reset();
  record.taxes[0].min_detectable_overhead_ratio = std::numeric_limits<double>::infinity();
  record.arms[0].step_time_seconds.reset();
  record.arms[0].blocks[0].step_time_seconds[0][0] = std::numeric_limits<double>::quiet_NaN();
  record.arms[0].failure_code = "non_finite";
  record.arms[0].failure = "step 3, rank 0";
  record.planned.model.moe.reset();
  record.planned.injections = {{"slow", "deterministic", 0, 0, "", "", 0.03}};
  record.verdict = make_verdict("not_resolved", "");
  record.verdict.seconds_needed = 30;
  EXPECT_EQ(check(to_json(record)), 0);
}

TEST_F(RecordSchema, RefusesWhatIsNotARecord) {
  std::string json = to_json(sample_record());
  std::string renamed = json;
  renamed.replace(renamed.find("\"overhead_ratio\""), 16, "\"overhead_reti_\"");
  EXPECT_EQ(check(renamed), 7);
  std::string wrong = json;
  wrong.replace(wrong.find("\"status\": \"pass\""), 16, "\"status\": \"PASS\"");
  EXPECT_EQ(check(wrong), 7);
  std::string text = json;
  text.replace(text.find("\"duration_seconds\": 21.5"), 24, "\"duration_seconds\":\"21.5\"");
  EXPECT_EQ(check(text), 7);
}

}  // namespace
}  // namespace dettax
