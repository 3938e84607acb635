/** Light and dark values, by the custom properties of the page's style. */
const ofPage = {
  text: ['#1b1f24', '#e6e9ed'],
  muted: ['#59636e', '#9aa5b1'],
  grid: ['#e3e7ec', '#2c333b'],
  surface: ['#ffffff', '#171b20'],
  page: ['#f5f7f9', '#0e1114'],
  accent: ['#0063a0', '#6cb8ee'],
  warning: ['#8f3a00', '#ffb482'],
  warned: ['#fdeee3', '#3a2416'],
} as const

/**
 * Percentiles go from blue (low) to orange (high). The others are the colours of Okabe and Ito, which are
 * distinguishable with colour blindness.
 */
const ofSeries = {
  p50: ['#08519c', '#a9cdee'],
  p90: ['#3182bd', '#6baed6'],
  p95: ['#5a9fd0', '#3f8fcb'],
  p99: ['#e08214', '#fdb863'],
  p999: ['#b35806', '#e08214'],
  max: ['#6b6f76', '#9aa0a8'],
  infer: ['#0072b2', '#3d9bd6'],
  input: ['#56b4e9', '#8fd0f5'],
  output: ['#009e73', '#2fbf95'],
  queue: ['#e69f00', '#f0b429'],
  overhead: ['#8c939c', '#707a85'],
  first: ['#0072b2', '#3d9bd6'],
  second: ['#d55e00', '#f08a45'],
  third: ['#009e73', '#2fbf95'],
  fourth: ['#e69f00', '#f0b429'],
  fifth: ['#cc79a7', '#dd9dc1'],
  sixth: ['#56b4e9', '#8fd0f5'],
  seventh: ['#8c939c', '#a3acb6'],
  eighth: ['#5b4a9c', '#a497e0'],
} as const

/** All colours of a page. */
export const colours = { ...ofPage, ...ofSeries }

/** A colour of a series. */
export type Colour = keyof typeof ofSeries
