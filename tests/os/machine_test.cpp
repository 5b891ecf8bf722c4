#include "os/machine.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "temp_dir.h"

namespace strata {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A machine made of files: 64 GiB with 60 free, four CPUs on two cores.
class FakeMachine {
 public:
  explicit FakeMachine(bool with_topology = true) {
    put("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        10000000 kB\nMemAvailable:   62914560 kB\n");
    put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Example CPU 9000 @ 3 GHz\nflags\t\t: fpu\n");
    for (int cpu = 0; with_topology && cpu < 4; ++cpu) {
      put(fmt::format("sys/devices/system/cpu/cpu{}/topology/core_id", cpu), fmt::format("{}\n", cpu / 2));
      put(fmt::format("sys/devices/system/cpu/cpu{}/topology/physical_package_id", cpu), "0\n");
    }
  }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_.path(name)).parent_path());
    dir_.put(name, text);
  }
  Machine read(std::vector<int> cpus = {0, 1, 2, 3}) const {
    return read_machine({dir_.path("proc"), dir_.path("sys"), dir_.path("cgroup"), std::move(cpus)});
  }

 private:
  TempDir dir_;
};

TEST(Machine, ReadsAMachineWithoutLimits) {
  const Machine m = FakeMachine().read();
  EXPECT_EQ(m.ram_total, 64 * kGiB);
  EXPECT_EQ(m.ram_available, 60 * kGiB);
  EXPECT_EQ(m.ram_limit, "");
  EXPECT_EQ(m.usable_cpus, 4);
  EXPECT_EQ(m.physical_cores, 2);
  EXPECT_EQ(m.cpu_quota, 0);
  EXPECT_EQ(m.cpu_model, "Example CPU 9000 @ 3 GHz");
}

TEST(Machine, AContainerOf8GiBOnA64GiBHostHas8GiB) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/docker/abc\n");
  fake.put("cgroup/docker/abc/memory.max", "8589934592\n");
  fake.put("cgroup/docker/abc/memory.current", "1073741824\n");
  const Machine m = fake.read();
  EXPECT_EQ(m.ram_total, 8 * kGiB);
  EXPECT_EQ(m.ram_available, 7 * kGiB);
  EXPECT_NE(m.ram_limit.find("docker/abc/memory.max"), std::string::npos);
}

TEST(Machine, AContainerThatSeesItsGroupAsTheRootIsLimitedToo) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/../../not/mounted/here\n");
  fake.put("cgroup/memory.max", "8589934592\n");
  EXPECT_EQ(fake.read().ram_total, 8 * kGiB);
}

TEST(Machine, TakesTheSmallestLimitOfTheHierarchy) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/a/b/c\n");
  fake.put("cgroup/a/memory.max", "17179869184\n");
  fake.put("cgroup/a/memory.current", "15032385536\n");
  fake.put("cgroup/a/b/memory.max", "8589934592\n");
  fake.put("cgroup/a/b/memory.current", "1073741824\n");
  fake.put("cgroup/a/b/c/memory.max", "max\n");
  const Machine m = fake.read();
  EXPECT_EQ(m.ram_total, 8 * kGiB);
  EXPECT_EQ(m.ram_available, 2 * kGiB);  // what the fuller group above still has
}

TEST(Machine, CountsIdleFilePagesAsAvailable) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/a\n");
  fake.put("cgroup/a/memory.max", "8589934592\n");
  fake.put("cgroup/a/memory.current", "7516192768\n");
  fake.put("cgroup/a/memory.stat", "anon 1073741824\nfile 6442450944\ninactive_file 6442450944\n");
  EXPECT_EQ(fake.read().ram_available, 7 * kGiB);
}

TEST(Machine, HonoursVersion1Groups) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n");
  fake.put("cgroup/memory/box/memory.limit_in_bytes", "8589934592\n");
  fake.put("cgroup/memory/box/memory.usage_in_bytes", "3221225472\n");
  fake.put("cgroup/memory/box/memory.stat", "inactive_file 5\ntotal_inactive_file 1073741824\n");
  fake.put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  fake.put("cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  fake.put("cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  const Machine m = fake.read();
  EXPECT_EQ(m.ram_total, 8 * kGiB);
  EXPECT_EQ(m.ram_available, 6 * kGiB);
  EXPECT_EQ(m.cpu_quota, 2.5);
  EXPECT_EQ(m.usable_cpus, 4) << "a limit on time takes no processor away";
}

TEST(Machine, ReadsACpuQuotaOfVersion2) {
  const auto quota = [](const std::string& text) {
    FakeMachine fake;
    fake.put("proc/self/cgroup", "0::/a\n");
    fake.put("cgroup/a/cpu.max", text);
    return fake.read().cpu_quota;
  };
  EXPECT_EQ(quota("150000 100000\n"), 1.5);
  EXPECT_EQ(quota("20000 100000\n"), 0.2);
  EXPECT_EQ(quota("900000 100000\n"), 9);
  EXPECT_EQ(quota("max 100000\n"), 0);
  EXPECT_EQ(quota("100000\n"), 0);
  EXPECT_EQ(quota("100000 0\n"), 0);
  EXPECT_EQ(quota("-1 100000\n"), 0);
}

TEST(Machine, TheTightestCpuQuotaAboveTheProcessCounts) {
  FakeMachine v2;
  v2.put("proc/self/cgroup", "0::/a/b/c\n");
  v2.put("cgroup/a/cpu.max", "300000 100000\n");
  v2.put("cgroup/a/b/cpu.max", "75000 50000\n");
  v2.put("cgroup/a/b/c/cpu.max", "max 100000\n");
  v2.put("cgroup/a/b/c/d/cpu.max", "10000 100000\n");  // below the process
  EXPECT_EQ(v2.read().cpu_quota, 1.5);

  FakeMachine v1;
  v1.put("proc/self/cgroup", "3:cpu,cpuacct:/a/b\n");
  v1.put("cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  v1.put("cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  v1.put("cgroup/cpu/a/cpu.cfs_quota_us", "250000\n");
  v1.put("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(v1.read().cpu_quota, 2.5);

  FakeMachine hybrid;  // both versions mounted: the second beside the controllers of the first
  hybrid.put("proc/self/cgroup", "1:cpu:/box\n0::/box\n");
  hybrid.put("cgroup/cpu/box/cpu.cfs_quota_us", "200000\n");
  hybrid.put("cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  hybrid.put("cgroup/unified/box/cpu.max", "120000 100000\n");
  EXPECT_EQ(hybrid.read().cpu_quota, 1.2);
}

struct Topology {
  const char* name;
  std::vector<std::string> siblings;  // of each CPU; "": the system does not say
  std::vector<int> allowed;           // the affinity mask
  int cores;
};

TEST(Machine, CountsCoresOfEveryTopologyByTheirSiblings) {
  const std::vector<std::string> smt = {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"};
  const std::vector<std::string> hybrid = {"0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"};  // two large, four small
  const Topology cases[] = {
      {"hyper-threads", smt, {0, 1, 2, 3, 4, 5, 6, 7}, 4},
      {"one of each pair", smt, {0, 1, 2, 3}, 4},
      {"two whole cores", smt, {0, 4, 1, 5}, 2},
      {"siblings partly masked", smt, {0, 4, 5, 7}, 3},
      {"large and small cores", hybrid, {0, 1, 2, 3, 4, 5, 6, 7}, 6},
      {"small cores and half a large one", hybrid, {1, 4, 5, 6, 7}, 5},
      {"no hyper-threads", {"0", "1"}, {0, 1}, 2},
      {"one CPU", {"0"}, {0}, 1},
      {"nothing is known", {"", "", ""}, {0, 1, 2}, 3},
      {"nothing is known of some", {"0-1", "0-1", "", ""}, {0, 1, 2, 3}, 3},
      {"not a list", {"\n", "x", "-1"}, {0, 1, 2}, 3},
  };
  for (const Topology& c : cases) {
    for (const char* file : {"core_cpus_list", "thread_siblings_list"}) {
      SCOPED_TRACE(fmt::format("{}, from {}", c.name, file));
      FakeMachine fake(false);
      for (size_t cpu = 0; cpu < c.siblings.size(); ++cpu) {
        if (c.siblings[cpu].empty()) continue;
        fake.put(fmt::format("sys/devices/system/cpu/cpu{}/topology/{}", cpu, file), c.siblings[cpu] + "\n");
      }
      const Machine m = fake.read(c.allowed);
      EXPECT_EQ(m.physical_cores, c.cores);
      EXPECT_EQ(m.usable_cpus, static_cast<int>(c.allowed.size()));
    }
  }
}

// Some systems number the cores of every cluster from 0.
TEST(Machine, SiblingsCountMoreThanNumbersOfCores) {
  FakeMachine fake;
  for (int cpu = 0; cpu < 4; ++cpu)
    fake.put(fmt::format("sys/devices/system/cpu/cpu{}/topology/core_cpus_list", cpu), fmt::format("{}\n", cpu));
  EXPECT_EQ(fake.read().physical_cores, 4);
}

TEST(Machine, CountsCoresOnlyAmongTheAllowedCpus) {
  FakeMachine fake;
  EXPECT_EQ(fake.read({0, 1}).physical_cores, 1);
  EXPECT_EQ(fake.read({1, 2}).physical_cores, 2);
  EXPECT_EQ(fake.read({0, 7, 9}).physical_cores, 3);  // no topology for two of them
  EXPECT_EQ(fake.read({3}).usable_cpus, 1);
}

TEST(Machine, ReadsNothingFromNothing) {
  const Machine m = read_machine({"/nonexistent", "/nonexistent", "/nonexistent", {0, 1}});
  EXPECT_EQ(m.ram_total, 0u);
  EXPECT_EQ(m.ram_available, 0u);
  EXPECT_EQ(m.usable_cpus, 2);
  EXPECT_EQ(m.physical_cores, 2);
  EXPECT_EQ(m.cpu_model, "");
}

TEST(Machine, PassesOverGarbage) {
  for (const std::string& garbage :
       {std::string("\0\xff\x01:::\n", 7), std::string("::::::::\n\n\n0::"), std::string(200000, ':'),
        fmt::format("0::{:/>100000}", ""), std::string("-1"), std::string("99999999999999999999999"), std::string()}) {
    FakeMachine fake;
    for (const char* name : {"proc/self/cgroup", "cgroup/memory.max", "cgroup/memory.current", "cgroup/memory.stat",
                             "cgroup/cpu.max", "proc/cpuinfo", "sys/devices/system/cpu/cpu0/topology/core_id"}) {
      fake.put(name, garbage);
    }
    const Machine m = fake.read();
    EXPECT_EQ(m.ram_total, 64 * kGiB);
    EXPECT_EQ(m.ram_available, 60 * kGiB);
    EXPECT_EQ(m.usable_cpus, 4);
    EXPECT_GE(m.physical_cores, 1);
    fake.put("proc/meminfo", garbage);
    EXPECT_EQ(fake.read().ram_total, 0u);
  }
}

TEST(Machine, DoesNotOverflowOnImpossibleMemory) {
  FakeMachine fake;
  fake.put("proc/meminfo", "MemTotal: 18446744073709551615 kB\nMemAvailable: 18446744073709551615 kB\n");
  EXPECT_EQ(fake.read().ram_total, 0u);
}

TEST(Machine, DescribesTheMachineItRunsOn) {
  const Machine m = read_machine();
  EXPECT_GT(m.ram_total, 0u);
  EXPECT_GT(m.ram_available, 0u);
  EXPECT_LE(m.ram_available, m.ram_total);
  EXPECT_GE(m.usable_cpus, 1);
  EXPECT_GE(m.physical_cores, 1);
  EXPECT_LE(m.physical_cores, m.usable_cpus);
  EXPECT_EQ((std::set<std::string>{"avx512", "avx2", "sse2", "generic"}.count(m.isa)), 1u);
}

}  // namespace
}  // namespace strata
