#include "exporters/prometheus/metrics_server.h"

#include <exception>

#include <prometheus/exposer.h>

#include "exporters/prometheus/run_collectable.h"
#include "harness/base/error.h"

namespace dettax {
namespace {

bool same(const std::string& a, const std::string& b) {
  // In a time that does not tell where they differ.
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && !b.empty(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i % b.size()]);
  return difference == 0;
}

}  // namespace

struct MetricsServer::State {
  std::shared_ptr<RunCollectable> collectable;  // as prometheus-cpp wants it
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsServer::MetricsServer(const ServerSettings& settings) : state_(std::make_unique<State>()) {
  state_->collectable =
      std::make_shared<RunCollectable>(settings.runs_folder, settings.keep_seconds);
  try {
    state_->exposer = std::make_unique<prometheus::Exposer>(settings.address);
  } catch (const std::exception&) {
    throw Error(ErrorKind::infrastructure,
                settings.address +
                    ": cannot be listened on: is the port taken, or the address "
                    "not one of this host?");
  }
  if (!settings.user.empty()) {
    state_->exposer->RegisterAuth(
        [user = settings.user, password = settings.password](const std::string& given,
                                                             const std::string& secret) {
          return same(given, user) && same(secret, password);
        },
        "dettax");
  }
  state_->exposer->RegisterCollectable(state_->collectable);
}

MetricsServer::~MetricsServer() = default;

int MetricsServer::port() const { return state_->exposer->GetListeningPorts().at(0); }

}  // namespace dettax
