// What this machine offers to this process: memory under the limits of its control groups, cores it may use, the
// processor and its vector instructions. Facts only, read once; nothing here decides. Files that are missing or make
// no sense are passed over, so reading never fails; 0 or "" means the system did not say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

// Where to look; tests point these at directories of their own.
struct MachineRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string cgroup = "/sys/fs/cgroup";
  std::vector<int> cpus;  // the CPUs this process may run on; empty: ask the system
};

struct Machine {
  uint64_t ram_total = 0;      // bytes: the machine's memory or the tightest limit above this process
  uint64_t ram_available = 0;  // bytes that can be allocated now without swapping or breaking a limit
  std::string ram_limit;       // the file that set ram_total below the machine's memory; "" without a limit
  int usable_cpus = 1;         // logical CPUs that the affinity mask allows
  int physical_cores = 1;      // cores behind those CPUs; hardware threads of one core count once
  double cpu_quota = 0;        // CPUs' worth of time that the tightest control group allows; 0: no limit
  std::string cpu_model;
  std::string isa;  // best level this processor and system support: "avx512", "avx2", "sse2", "generic"
};

Machine read_machine(const MachineRoots& roots = {});

// The isa of this processor alone.
std::string isa_level();

}  // namespace strata
