#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "results/run_folder.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;

std::string complaint(const std::string& json) {
  try {
    parse_record(json, "case.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RecordJson, WrittenAndReadIsTheSame) {
  const std::string json = to_json(record_with_causes());
  EXPECT_EQ(to_json(parse_record(json, "case.json")), json);
}

TEST(RecordJson, AnUnknownReasonCodeIsNamedByFileAndKey) {
  Record record = sample_record();
  record.verdict.reason_code = "within_limits";
  EXPECT_EQ(complaint(to_json(record)),
            "case.json: verdict.reason_code: there is no reason code 'within_limits'; did you mean "
            "\"within_limit\"?");
  record = sample_record();
  record.arms[1].failure_code = "hanged_up_on";
  EXPECT_THAT(complaint(to_json(record)),
              testing::StartsWith("case.json: arms[1].failure_code: there is no reason code "));
  record.arms[1].failure_code = "hang";
  EXPECT_EQ(complaint(to_json(record)), "");
}

TEST(RecordJson, KeepsEveryBitOfANumber) {
  Record record = sample_record();
  record.arms[0].blocks[0].step_time_seconds[0][0] = std::nextafter(0.1, 1.0);
  record.planned.seed = 18446744073709551615ULL;
  const Record read = parse_record(to_json(record), "case.json");
  EXPECT_EQ(read.arms[0].blocks[0].step_time_seconds[0][0], std::nextafter(0.1, 1.0));
  EXPECT_EQ(read.planned.seed, record.planned.seed);
}

TEST(RecordJson, ANumberThatDoesNotExistIsNullBesideAReason) {
  Record record = sample_record();
  record.taxes[0].min_detectable_overhead_ratio = std::numeric_limits<double>::infinity();
  record.taxes[0].control_ratio.reset();
  record.arms[1].step_time_seconds.reset();
  record.arms[0].tokens_per_second = std::nan("");
  record.arms[0].blocks[0].step_time_seconds[0][1] = std::nan("");
  const std::string json = to_json(record);
  for (const char* word : {"NaN", "nan,", "Infinity", "inf,"})
    EXPECT_THAT(json, testing::Not(HasSubstr(word)));
  EXPECT_THAT(json, HasSubstr("\"min_detectable_overhead_ratio_reason\": \"positive infinity\""));
  EXPECT_THAT(json, HasSubstr("\"tokens_per_second_reason\": \"not a number\""));
  EXPECT_THAT(json, HasSubstr("\"step_time_seconds_reason\": \"1 not finite\""));
  const Record read = parse_record(json, "case.json");
  EXPECT_TRUE(std::isinf(read.taxes[0].min_detectable_overhead_ratio));
  EXPECT_FALSE(read.taxes[0].control_ratio);
  EXPECT_FALSE(read.arms[1].step_time_seconds);
  EXPECT_TRUE(std::isnan(read.arms[0].blocks[0].step_time_seconds[0][1]));
  EXPECT_EQ(to_json(read), json);
}

TEST(RecordJson, ANullWithoutAReasonIsRefused) {
  const std::string json = replaced(to_json(sample_record()), "\"duration_seconds\": 21.5",
                                    "\"duration_seconds\": null");
  EXPECT_THAT(complaint(json), HasSubstr("case.json: duration_seconds_reason: is missing"));
}

TEST(RecordJson, ReadingIsStrictAndNamesTheKey) {
  const std::string json = to_json(sample_record());
  EXPECT_EQ(complaint(json), "");
  EXPECT_THAT(complaint(replaced(json, "\"position\": 0,", "")),
              HasSubstr("case.json: arms[0].blocks[0].position: is missing"));
  EXPECT_THAT(complaint(replaced(json, "\"position\": 0,", "\"position\": 0, \"extra\": 1,")),
              HasSubstr("arms[0].blocks[0].extra: is not a key"));
  EXPECT_THAT(complaint(replaced(json, "\"position\": 0,", "\"position\": 0.5,")),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(complaint(replaced(json, "\"position\": 0,", "\"position\": 0, \"position\": 1,")),
              HasSubstr("stands twice"));
  EXPECT_THAT(complaint(replaced(json, "\"cpu\"", "\"gpu\"")),
              HasSubstr("planned.backend: 'gpu' is none of cpu, cuda"));
  EXPECT_THAT(complaint(replaced(json, "\"published\": true", "\"published\": \"yes\"")),
              HasSubstr("must be true or false"));
  EXPECT_THAT(complaint(replaced(json, "\"round\": 0,", "\"round\": 99999999999,")),
              HasSubstr("is too large"));
  EXPECT_EQ(complaint(json.substr(0, json.size() / 2)),
            "case.json: is not whole JSON: it ends too early; was it cut off?");
  EXPECT_EQ(complaint("{\n\"a\": 1,\n?\n}"),
            "case.json:3: is not whole JSON from here on; was it damaged or edited?");
  EXPECT_THAT(complaint(json + "x"), HasSubstr("is not whole JSON"));
  EXPECT_EQ(complaint("{\"a\": 1e999}"),
            "case.json: is not whole JSON: it holds a number too large to read");
  EXPECT_THAT(complaint("[]"), HasSubstr("this is no record"));
}

TEST(RecordJson, IntervalsThatDoNotHoldTheirValueAreRefused) {
  const auto with = [](const Estimate& estimate) {
    Record record = sample_record();
    record.taxes[0].overhead_ratio = estimate;
    return complaint(to_json(record));
  };
  EXPECT_EQ(with({1.02, 1.02, 1.02, 4}), "");
  EXPECT_EQ(with({1.02, std::nan(""), std::nan(""), 0}), "") << "no interval is no wrong one";
  EXPECT_EQ(with({1.02, 1.03, 1.04, 4}),
            "case.json: taxes[0].overhead_ratio.low: is over the value");
  EXPECT_EQ(with({1.02, 1.01, 1.015, 4}),
            "case.json: taxes[0].overhead_ratio.high: is under the value");
  EXPECT_EQ(with({1.02, 1.01, 1.03, -1}),
            "case.json: taxes[0].overhead_ratio.count: must be 0 or more");
  EXPECT_THAT(with({-1.02, -1.03, 1.03, 4}), HasSubstr("taxes[0].overhead_ratio: must be over 0"));
  Record record = sample_record();
  record.arms[2].step_time_seconds = Estimate{0.01, -0.01, 0.02, 4};
  EXPECT_THAT(complaint(to_json(record)),
              HasSubstr("arms[2].step_time_seconds: must be over 0, as times"));
}

TEST(RecordJson, AnotherSchemaVersionIsRefusedBeforeAnythingElse) {
  EXPECT_THAT(complaint(R"({"schema_version": 99, "whatever": 1})"),
              HasSubstr("schema_version: is 99; this program reads 1"));
}

TEST(RecordJson, AReasonCodeOutsideTheListOrAtOddsWithTheStatusIsRefused) {
  const std::string json = to_json(sample_record());
  EXPECT_THAT(complaint(replaced(json, "\"within_limit\"", "\"all_good\"")),
              HasSubstr("no reason code 'all_good'"));
  EXPECT_THAT(complaint(replaced(json, "\"within_limit\"", "\"over_limit\"")),
              HasSubstr("goes with status fail and exit_code 1"));
}

}  // namespace
}  // namespace dettax
