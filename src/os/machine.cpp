#include "os/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace strata {
namespace {

constexpr size_t kMaxFileBytes = 64 * 1024;  // more than any fact needs; the rest of a longer file is not read
constexpr size_t kMaxPathBytes = 4096;

std::string read_start(const std::string& path) {
  std::string text(kMaxFileBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The text after the first line that begins with `key`, up to its end.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.substr(0, key.size()) == key) return trim(line.substr(key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

// The whole number at the start of the text; "max", a negative number and anything else give nothing.
std::optional<uint64_t> number(std::string_view text) {
  text = trim(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> number_in(const std::string& path) {
  return number(read_start(path));
}

std::optional<uint64_t> field_in(std::string_view text, std::string_view key) {
  const auto rest = line_after(text, key);
  return rest ? number(*rest) : std::nullopt;
}

// One controller's place in the hierarchy: the directories from this process's own group up to the root.
struct GroupChain {
  bool v2 = false;
  std::vector<std::string> directories;
};

void add_chain(std::vector<GroupChain>& chains, bool v2, const std::string& mount, std::string_view path) {
  const bool plausible =
      !path.empty() && path.front() == '/' && path.size() < kMaxPathBytes && path.find("..") == std::string_view::npos;
  if (!plausible) path = "/";
  GroupChain chain{v2, {}};
  while (path.size() > 1) {
    chain.directories.push_back(mount + std::string(path));
    path = path.substr(0, path.find_last_of('/'));
  }
  chain.directories.push_back(mount);
  chains.push_back(std::move(chain));
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// Where `controller` ("memory", "cpu") may limit this process, after lines "id:controllers:path" of its cgroup file.
// A container may see its own group as the root, so the root of each mount counts even when nothing names it.
std::vector<GroupChain> group_chains(const MachineRoots& roots, std::string_view controller) {
  std::vector<GroupChain> chains;
  const std::string file = read_start(roots.proc + "/self/cgroup");
  std::string_view text = file;
  std::string_view v2_path = "/", v1_path = "/", v1_name = controller;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) v2_path = line.substr(second + 1);
    if (!lists(controllers, controller)) continue;
    v1_path = line.substr(second + 1);
    v1_name = controllers;
  }
  add_chain(chains, true, roots.cgroup, v2_path);
  add_chain(chains, true, roots.cgroup + "/unified", v2_path);
  add_chain(chains, false, roots.cgroup + "/" + std::string(controller), v1_path);
  if (v1_name != controller) add_chain(chains, false, roots.cgroup + "/" + std::string(v1_name), v1_path);
  return chains;
}

void apply_memory_limits(const MachineRoots& roots, Machine& machine) {
  for (const GroupChain& chain : group_chains(roots, "memory")) {
    for (const std::string& directory : chain.directories) {
      const std::string limit_file = directory + (chain.v2 ? "/memory.max" : "/memory.limit_in_bytes");
      const auto limit = number_in(limit_file);
      // "No limit" is the word max, or in v1 a number near the top of the address space.
      if (!limit || *limit == 0 ||
          (machine.ram_total != 0 && *limit >= machine.ram_total && *limit >= uint64_t{1} << 60))
        continue;
      const uint64_t used =
          number_in(directory + (chain.v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
      // File pages that nobody uses count as used but are given back on demand.
      const std::string stat = read_start(directory + "/memory.stat");
      const uint64_t idle = field_in(stat, chain.v2 ? "inactive_file " : "total_inactive_file ").value_or(0);
      const uint64_t kept = used - std::min(used, idle);
      machine.ram_available = std::min(machine.ram_available, *limit - std::min(*limit, kept));
      if (*limit < machine.ram_total) {
        machine.ram_total = *limit;
        machine.ram_limit = limit_file;
      }
    }
  }
}

void read_memory(const MachineRoots& roots, Machine& machine) {
  const std::string meminfo = read_start(roots.proc + "/meminfo");
  const auto bytes = [&](std::string_view key) {
    const uint64_t kib = field_in(meminfo, key).value_or(0);
    return kib > (uint64_t{1} << 53) ? 0 : kib * 1024;
  };
  machine.ram_total = bytes("MemTotal:");
  machine.ram_available = bytes("MemAvailable:");
  if (machine.ram_available == 0) machine.ram_available = bytes("MemFree:") + bytes("Cached:");
  if (machine.ram_total == 0) return;
  machine.ram_available = std::min(machine.ram_available, machine.ram_total);
  apply_memory_limits(roots, machine);
}

// CPUs' worth of time that the tightest quota allows; 0 without one.
double read_cpu_quota(const MachineRoots& roots) {
  double tightest = 0;
  for (const GroupChain& chain : group_chains(roots, "cpu")) {
    for (const std::string& directory : chain.directories) {
      std::optional<uint64_t> quota, period;
      if (chain.v2) {
        const std::string text = read_start(directory + "/cpu.max");  // "quota period" or "max period"
        const size_t space = text.find(' ');
        quota = number(text);
        period = space == std::string::npos ? std::nullopt : number(std::string_view(text).substr(space));
      } else {
        quota = number_in(directory + "/cpu.cfs_quota_us");
        period = number_in(directory + "/cpu.cfs_period_us");
      }
      if (!quota || !period || *quota == 0 || *period == 0) continue;
      const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
      tightest = tightest == 0 ? cpus : std::min(tightest, cpus);
    }
  }
  return tightest;
}

std::vector<int> allowed_cpus() {
  // The kernel refuses a set smaller than its own, so grow until it fits.
  for (int n_cpus = 1024; n_cpus <= 1 << 16; n_cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(n_cpus));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n_cpus));
    CPU_ZERO_S(bytes, set);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < n_cpus; ++cpu) {
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)); ++cpu) cpus.push_back(cpu);
  return cpus;
}

// What tells the core of a CPU from others. The list of its siblings does so everywhere; numbers of cores begin anew in
// each package, and on some machines in each cluster. "" where the system does not say.
std::string core_of(const MachineRoots& roots, int cpu) {
  const std::string topology = roots.sys + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
  for (const char* siblings : {"/core_cpus_list", "/thread_siblings_list"}) {
    const std::string list = read_start(topology + siblings);
    if (number(list)) return std::string(trim(list));
  }
  const auto core = number_in(topology + "/core_id");
  if (!core) return {};
  return std::to_string(number_in(topology + "/physical_package_id").value_or(0)) + ":" + std::to_string(*core);
}

// Distinct cores among the CPUs; a CPU whose core is unknown counts as one of its own.
int count_cores(const MachineRoots& roots, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  int unknown = 0;
  for (const int cpu : cpus) {
    const std::string core = core_of(roots, cpu);
    if (core.empty()) {
      ++unknown;
    } else {
      cores.insert(core);
    }
  }
  return static_cast<int>(cores.size()) + unknown;
}

std::string read_cpu_model(const MachineRoots& roots) {
  const std::string text = read_start(roots.proc + "/cpuinfo");
  for (const std::string_view key : {"model name", "Model", "Hardware"}) {
    const auto rest = line_after(text, key);
    if (rest && !rest->empty() && rest->front() == ':') return std::string(trim(rest->substr(1)));
  }
  return {};
}

}  // namespace

std::string isa_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni") && __builtin_cpu_supports("bmi2")) {
    return "avx512";
  }
  if (__builtin_cpu_supports("avx2")) return "avx2";
  return "sse2";
#else
  return "generic";
#endif
}

Machine read_machine(const MachineRoots& roots) {
  Machine machine;
  read_memory(roots, machine);
  const std::vector<int> cpus = roots.cpus.empty() ? allowed_cpus() : roots.cpus;
  machine.cpu_quota = read_cpu_quota(roots);
  machine.usable_cpus = static_cast<int>(cpus.size());
  machine.physical_cores = count_cores(roots, cpus);
  machine.cpu_model = read_cpu_model(roots);
  machine.isa = isa_level();
  return machine;
}

}  // namespace strata
