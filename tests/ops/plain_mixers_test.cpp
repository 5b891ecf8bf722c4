#include "ops/cases_gdn.h"
#include "ops/gdn_chunk_reference.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainMixers : public testing::TestWithParam<OpCase> {};
TEST_P(PlainMixers, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainMixers, testing::ValuesIn(gdn_cases()), OpCaseName());

namespace {

// The inputs of `rows` for one value head after convolution and gates, as SpecGdn computes them.
GdnChunk chunk_of(const GdnModel& m, const std::vector<Vec>& history, const std::vector<GdnModel::Row>& rows,
                  int head) {
  GdnChunk c;
  const int h = head % m.w.k_heads, qk = m.w.k_heads * m.w.k_dim;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<Vec> past(history.begin(), history.end() - static_cast<std::ptrdiff_t>(rows.size() - 1 - i));
    const Vec u = spec_conv(past, m.w.conv, m.w.conv_kernel, 1);
    c.q.push_back(SpecGdn::unit(slice(u, h * m.w.k_dim, m.w.k_dim)));
    for (double& x : c.q.back()) x /= std::sqrt(m.w.k_dim);
    c.k.push_back(SpecGdn::unit(slice(u, qk + h * m.w.k_dim, m.w.k_dim)));
    c.v.push_back(slice(u, 2 * qk + head * m.w.v_dim, m.w.v_dim));
    const auto at = static_cast<size_t>(head);
    const double pre = static_cast<double>(rows[i].alpha[at] + m.dt_bias[at]);
    c.log_decay.push_back(static_cast<double>(m.a[at]) * std::log1p(std::exp(pre)));
    c.beta.push_back(spec_sigmoid(static_cast<double>(rows[i].beta[at])));
  }
  return c;
}

}  // namespace

TEST(GdnChunkForm, EqualsTheStepForm) {
  const GdnModel m(kGdnShapes[2]);
  PlainOps ops;
  TestSequence sequence(m.shape());
  std::vector<std::vector<Vec>> z(
      static_cast<size_t>(m.w.v_heads),
      std::vector<Vec>(static_cast<size_t>(m.w.k_dim), Vec(static_cast<size_t>(m.w.v_dim))));
  std::vector<Vec> history;
  for (const int n : {64, 1, 17}) {
    std::vector<uint64_t> ids;
    std::vector<GdnModel::Row> rows;
    for (int i = 0; i < n; ++i) {
      ids.push_back(token_at(0, sequence.length() + i));
      rows.push_back(m.row(ids.back()));
      history.emplace_back(rows.back().qkv.begin(), rows.back().qkv.end());
    }
    Mat out(n, m.width);
    const Segment segment = sequence.segment(0, n, RowRole::prompt);
    m.run_layer(ops, 0, {&segment, 1}, ids, out);
    sequence.commit(RowRole::prompt, n, n);
    for (int head = 0; head < m.w.v_heads; ++head) {
      const auto reads = gdn_chunk_reference(chunk_of(m, history, rows, head), z[static_cast<size_t>(head)]);
      for (int i = 0; i < n; ++i) {
        Vec want = spec_rms(reads[static_cast<size_t>(i)], m.w.norm, 1e-6);
        for (int j = 0; j < m.w.v_dim; ++j) {
          want[static_cast<size_t>(j)] *= spec_sigmoid(
              static_cast<double>(rows[static_cast<size_t>(i)].gate[static_cast<size_t>(head * m.w.v_dim + j)]));
        }
        expect_near(out.row(i) + head * m.w.v_dim, want, 2e-5,
                    fmt::format("row {} of a chunk of {}, head {}", i, n, head));
      }
    }
  }
}

TEST(GdnMix, ChangesTheBaseOnlyByTheKeptRows) {
  const GdnModel m(kGdnShapes[1]);
  PlainOps ops;
  TestSequence sequence(m.shape());
  const GdnState& state = sequence.view().gdn[0];
  const size_t n = static_cast<size_t>(m.w.v_heads * m.w.k_dim * m.w.v_dim);
  const std::vector<float> fresh(state.base, state.base + n);
  Mat out(8, m.width);
  run_rows(ops, m, sequence, RowRole::generated, {1, 2, 3, 4, 5}, out);
  EXPECT_EQ(std::vector<float>(state.base, state.base + n), fresh);
  sequence.commit(RowRole::generated, 5, 3);
  run_rows(ops, m, sequence, RowRole::generated, {6}, out);
  const std::vector<float> three(state.base, state.base + n);
  EXPECT_NE(three, fresh);

  TestSequence serial(m.shape());
  for (const uint64_t id : {1, 2, 3, 6}) {
    run_rows(ops, m, serial, RowRole::generated, {id}, out);
    serial.commit(RowRole::generated, 1, 1);
  }
  const float* base = serial.view().gdn[0].base;  // holds all but the last row
  EXPECT_EQ(std::vector<float>(base, base + n), three);
}

}  // namespace strata::test
