#include "cli/bench_text.h"

#include <fmt/format.h>

#include "base/units.h"

namespace strata {
namespace {

const char* limit_name(BenchLimit limit) {
  switch (limit) {
    case BenchLimit::none:
      return "";
    case BenchLimit::read:
      return "read";
    case BenchLimit::int8:
      return "int8";
    case BenchLimit::float32:
      return "float32";
  }
  return "";
}

// Three digits that matter, in a column; "-" for what was not counted.
std::string digits(double x) {
  if (!(x > 0)) return "-";
  return fmt::format("{:.{}f}", x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
}

std::string head_text(const BenchReport& report) {
  return fmt::format("{}, {} kernels, {}; working set of {}, {:.0f}% in large pages\n",
                     report.cpu.empty() ? "a processor without a name" : one_line(report.cpu, 60), report.isa,
                     plural(static_cast<uint64_t>(report.threads), "thread"), format_bytes(report.working_set_bytes),
                     100 * report.large_page_share);
}

std::string tail_text(const BenchReport& report) {
  return fmt::format("measured in {}; the limits changed by up to {:.0f}% meanwhile\n",
                     format_duration(report.elapsed_s), 100 * report.drift());
}

const BenchCell* find_cell(const BenchReport& report, const std::string& format, int rows, int threads) {
  for (const BenchCell& cell : report.cells) {
    if (cell.group == "weights" && cell.name == format && cell.rows == rows && cell.threads == threads) return &cell;
  }
  return nullptr;
}

Json rates_json(const std::vector<BenchRates>& rates) {
  Json out = Json::array();
  for (const BenchRates& r : rates) {
    out.push_back({{"threads", r.threads},
                   {"read_gb_per_s", r.read_gb_per_s},
                   {"int8_gflop_per_s", r.int8_gflop_per_s},
                   {"float_gflop_per_s", r.float_gflop_per_s}});
  }
  return out;
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::string out = head_text(report);
  out += fmt::format("\n{:<28}{:>8}{:>14}{:>16}{:>18}\n", "limits of this machine", "threads", "read GB/s",
                     "int8 GFLOP/s", "float32 GFLOP/s");
  for (const BenchRates& r : report.rates) {
    out += fmt::format("{:<28}{:>8}{:>14}{:>16}{:>18}\n", "", r.threads, digits(r.read_gb_per_s),
                       digits(r.int8_gflop_per_s), digits(r.float_gflop_per_s));
  }
  out += fmt::format("\n{:<15} {:<22}{:>5}{:>8}{:>10}{:>5}{:>10}{:>8}{:>9}{:>7}  {}\n", "kernel", "shape", "rows",
                     "threads", "us", "+-%", "Gvalue/s", "GB/s", "GFLOP/s", "%", "of limit");
  for (const BenchCell& c : report.cells) {
    out += fmt::format("{:<15} {:<22}{:>5}{:>8}{:>10}{:>5.0f}{:>10}{:>8}{:>9}{:>7}  {}\n", c.name, c.shape, c.rows,
                       c.threads, digits(c.us), 100 * c.spread, digits(c.gvalues_per_s()), digits(c.gb_per_s()),
                       digits(c.gflop_per_s()), c.limit == BenchLimit::none ? "-" : fmt::format("{:.0f}", c.percent),
                       limit_name(c.limit));
  }
  return out + "\n" + tail_text(report);
}

std::string bench_markdown(const BenchReport& report) {
  std::string out = head_text(report);
  out += "\n| limits | read GB/s | int8 GFLOP/s | float32 GFLOP/s |\n|---|---:|---:|---:|\n";
  for (const BenchRates& r : report.rates) {
    out += fmt::format("| {} | {} | {} | {} |\n", plural(static_cast<uint64_t>(r.threads), "thread"),
                       digits(r.read_gb_per_s), digits(r.int8_gflop_per_s), digits(r.float_gflop_per_s));
  }
  out +=
      "\n| format | threads | one row: us | G weights/s | GB/s | % of limit | 128 rows: us | GFLOP/s | % of limit |\n"
      "|---|---:|---:|---:|---:|---|---:|---:|---|\n";
  for (const BenchCell& one : report.cells) {
    if (one.group != "weights" || one.rows != 1) continue;
    const BenchCell* many = find_cell(report, one.name, 128, one.threads);
    if (many == nullptr) continue;
    out += fmt::format("| {} | {} | {} | {} | {} | {:.0f} {} | {} | {} | {:.0f} {} |\n", one.name, one.threads,
                       digits(one.us), digits(one.gvalues_per_s()), digits(one.gb_per_s()), one.percent,
                       limit_name(one.limit), digits(many->us), digits(many->gflop_per_s()), many->percent,
                       limit_name(many->limit));
  }
  return out + "\n" + tail_text(report);
}

Json bench_json(const BenchReport& report) {
  Json out;
  out["bench"] = "kernels";
  out["cpu"] = report.cpu;
  out["isa"] = report.isa;
  out["threads"] = report.threads;
  out["working_set_bytes"] = report.working_set_bytes;
  out["large_page_share"] = report.large_page_share;
  out["rates"] = rates_json(report.rates);
  out["rates_after"] = rates_json(report.rates_after);
  out["drift"] = report.drift();
  out["elapsed_s"] = report.elapsed_s;
  out["cells"] = Json::array();
  for (const BenchCell& c : report.cells) {
    Json cell = {{"group", c.group},     {"name", c.name},   {"shape", c.shape},     {"rows", c.rows},
                 {"threads", c.threads}, {"us", c.us},       {"us_best", c.us_best}, {"spread", c.spread},
                 {"values", c.values},   {"bytes", c.bytes}, {"flops", c.flops}};
    cell["gvalues_per_s"] = c.gvalues_per_s();
    cell["gb_per_s"] = c.gb_per_s();
    cell["gflop_per_s"] = c.gflop_per_s();
    cell["limit"] = c.limit == BenchLimit::none ? Json(nullptr) : Json(limit_name(c.limit));
    cell["percent"] = c.limit == BenchLimit::none ? Json(nullptr) : Json(c.percent);
    out["cells"].push_back(std::move(cell));
  }
  return out;
}

}  // namespace strata
