#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace dettax {

struct ServerSettings {
  std::string address = "127.0.0.1:9464";  // port 0: any that is free
  std::string user, password;              // both empty: no authentication
  std::filesystem::path runs_folder;
  double keep_seconds = 7 * 24 * 3600.0;
};

// Serves the metrics of all runs under a folder on /metrics for as long as it lives; new records and runs show without a restart.
class MetricsServer {
 public:
  // Error{infrastructure} if the address cannot be listened on.
  explicit MetricsServer(const ServerSettings& settings);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dettax
