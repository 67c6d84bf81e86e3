// Times pieces of work against each other. Reads one job as JSON from standard input, writes the
// samples as JSON to standard output:
//
//   {"samples": 500, "warmup": 5, "pause_us": 3000, "rows": [{"name": "bwrap", "kind": …}, …]}
//     Every row once, then every row again: what disturbs the machine disturbs all of them. The
//     pause lets what one sample left to be done in the background end before the next.
//   {"seconds": 60, "threads": 2, "rows": [{…}]}
//     The first row without a pause, from several threads; how many ended in each second.
//
// `--write-filter FILE` writes the filter that execs of the profile `default` get, for a peer.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "policy/seccomp_profiles.h"
#include "tests/bench/work.h"

namespace sandboxd::bench {
namespace {

absl::StatusOr<nlohmann::json> Alternate(const nlohmann::json& job) {
  const nlohmann::json& rows = job.at("rows");
  std::vector<std::unique_ptr<Work>> works;
  std::vector<std::map<std::string, std::vector<double>>> times(rows.size());
  works.reserve(rows.size());
  for (const nlohmann::json& row : rows) {
    ASSIGN_OR_RETURN(std::unique_ptr<Work> work, MakeWork(row));
    works.push_back(std::move(work));
  }
  const int warmup = job.value("warmup", 5);
  const int samples = job.at("samples").get<int>();
  for (int i = -warmup; i < samples; ++i) {
    for (size_t k = 0; k < works.size(); ++k) {
      auto sample = works[k]->Run();
      if (!sample.ok()) {
        return absl::InternalError(rows[k].at("name").get<std::string>() + ": " +
                                   std::string(sample.status().message()));
      }
      for (const auto& [part, micros] : *sample) {
        if (i >= 0) times[k][part].push_back(micros);
      }
      usleep(job.value("pause_us", 3000u));
    }
  }
  nlohmann::json result = nlohmann::json::object();
  for (size_t k = 0; k < rows.size(); ++k) result[rows[k].at("name").get<std::string>()] = times[k];
  return result;
}

absl::StatusOr<nlohmann::json> Sustain(const nlohmann::json& job) {
  const int seconds = job.at("seconds").get<int>();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::atomic<int>> ended(static_cast<size_t>(seconds));
  std::vector<absl::Status> statuses(job.value("threads", size_t{2}));
  std::vector<std::thread> threads;
  threads.reserve(statuses.size());
  for (absl::Status& status : statuses) {
    threads.emplace_back([&] {
      auto work = MakeWork(job.at("rows").at(0));
      status = work.status();
      while (status.ok()) {
        status = (*work)->Run().status();
        const auto second = std::chrono::duration_cast<std::chrono::seconds>(
                                std::chrono::steady_clock::now() - start)
                                .count();
        if (second >= seconds) return;
        ++ended[static_cast<size_t>(second)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  nlohmann::json each = nlohmann::json::array();
  for (const std::atomic<int>& count : ended) each.push_back(count.load());
  return each;
}

int WriteFilter(const char* path) {
  const auto program = ExecSeccompFilter(SeccompKind::kDefault);
  if (!program.ok()) return 1;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(program->data()),
             static_cast<std::streamsize>(program->size() * sizeof(sock_filter)));
  return file.good() ? 0 : 1;
}

int Main() {
  const std::string text((std::istreambuf_iterator<char>(std::cin)), {});
  const nlohmann::json job = nlohmann::json::parse(text);
  const auto result = job.contains("seconds") ? Sustain(job) : Alternate(job);
  if (!result.ok()) {
    std::cerr << "sandboxd-bench: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << result->dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace sandboxd::bench

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write-filter") {
    return sandboxd::bench::WriteFilter(argv[2]);
  }
  return sandboxd::bench::Main();
}
