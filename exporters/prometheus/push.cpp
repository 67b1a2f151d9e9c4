#include "exporters/prometheus/push.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/gateway.h>
#include <prometheus/metric_family.h>

#include "exporters/prometheus/families.h"
#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr const char* kJob = "dettax";
constexpr const char* kSuccessJob = "dettax_success";
constexpr const char* kSuccess = "dettax_last_success_timestamp_seconds";

class Families : public prometheus::Collectable {
 public:
  explicit Families(std::vector<prometheus::MetricFamily> families)
      : families_(std::move(families)) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return families_; }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

// RFC 4648 for URLs: a group's name in a path may hold a slash only so.
std::string base64_url(const std::string& text) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  for (size_t at = 0; at < text.size(); at += 3) {
    uint32_t bits = 0;
    const size_t bytes = std::min<size_t>(3, text.size() - at);
    for (size_t i = 0; i < 3; ++i)
      bits = (bits << 8U) | (i < bytes ? static_cast<unsigned char>(text[at + i]) : 0U);
    for (size_t i = 0; i <= bytes; ++i) out += kDigits[(bits >> (18 - 6 * i)) & 63U];
    out.append(3 - bytes, '=');
  }
  return out;
}

std::string config_id(const prometheus::ClientMetric& metric) {
  for (const auto& label : metric.label) {
    if (label.name == "config_id") return label.value;
  }
  return "";
}

// job and config -> what is pushed there
using Groups = std::map<std::pair<std::string, std::string>, std::vector<prometheus::MetricFamily>>;

Groups groups_of(const std::vector<prometheus::MetricFamily>& families) {
  Groups groups;
  for (const prometheus::MetricFamily& family : families) {
    const char* job = family.name == kSuccess ? kSuccessJob : kJob;
    for (const prometheus::ClientMetric& metric : family.metric) {
      auto& group = groups[{job, config_id(metric)}];
      if (group.empty() || group.back().name != family.name) {
        group.push_back(family);
        group.back().metric.clear();
      }
      group.back().metric.push_back(metric);
    }
  }
  return groups;
}

}  // namespace

void push_metrics(const std::vector<Record>& records, const std::string& gateway) {
  const size_t colon = gateway.rfind(':');
  const std::string host = gateway.substr(0, colon), port = gateway.substr(colon + 1);
  constexpr int kOk = 200, kAccepted = 202;
  for (auto& [name, families] : groups_of(families_of(metrics_of(records, {})))) {
    const auto& [job, config] = name;
    prometheus::Gateway to(host, port, job, {{"config_id@base64", base64_url(config)}});
    const auto collectable = std::make_shared<Families>(std::move(families));
    to.RegisterCollectable(collectable);
    const int answer = to.PushAdd();  // replaces the group (PUT); its Push() adds to it (POST)
    if (answer == kOk || answer == kAccepted) continue;
    throw Error(ErrorKind::infrastructure,
                answer < 100
                    ? fmt::format("{}: no Pushgateway answers there", gateway)
                    : fmt::format("{}: did not take {}: HTTP status {}", gateway, config, answer));
  }
}

}  // namespace dettax
