import type { Unit } from './chart.ts'

const microsecondsIn: readonly [unit: string, us: number][] = [
  ['h', 3.6e9],
  ['min', 6e7],
  ['s', 1e6],
  ['ms', 1e3],
  ['µs', 1],
]
const bytesIn: readonly [unit: string, bytes: number][] = [
  ['TB', 1e12],
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3],
]
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 })
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 })

/** A number for display, with its unit. */
export function figureOf(value: number | null, unit: Unit): string {
  if (unit === 'microseconds') return timeOf(value)
  if (unit === 'bytes') return bytesOf(value)
  return unit === 'share' ? shareOf(value) : countOf(value)
}

/** A short form for axes, for round numbers. */
export function tickOf(value: number, unit: Unit): string {
  if (unit === 'microseconds') return roundTimeOf(value)
  if (unit === 'share') return shareOf(value)
  if (unit === 'bytes') return bytesOf(value).replace(/\.0+(?=\D)/, '')
  return Math.abs(value) >= 1e15 ? value.toExponential(0) : compact.format(value)
}

/** A duration that a user chose, without trailing zeros. */
export function roundTimeOf(us: number): string {
  return timeOf(us).replace(/\.0+(?=\D)|(\.\d*?)0+(?=\D)/, '$1')
}

/** A duration in a suitable unit, with three significant digits. */
export function timeOf(us: number | null): string {
  if (us === null || !Number.isFinite(us)) return unreal(us)
  if (us === 0) return '0 µs'
  const rounded = Number(us.toPrecision(3)) // before choosing the unit, so that it is not 1000 of it
  const size = Math.abs(rounded)
  if (size < 1) return `${digits(rounded * 1e3)} ns`
  const [unit, in1] = microsecondsIn.find(
    ([name, from]) => size >= (name === 'min' || name === 'h' ? 2 * from : from),
  ) ?? ['µs', 1]
  return `${digits(rounded / in1)} ${unit}`
}

/** A count, or a rate per second; large ones as whole numbers. */
export function countOf(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return unreal(value)
  const size = Math.abs(value)
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return value.toExponential(2)
  return Number.isInteger(value) || size >= 100 ? whole.format(value) : short.format(value)
}

/** A size in a suitable unit, by factors of 1000, with three significant digits. */
export function bytesOf(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return unreal(value)
  const [unit, in1] = bytesIn.find(([, from]) => Math.abs(value) >= from) ?? ['B', 1]
  return `${in1 === 1 ? countOf(value) : digits(value / in1)} ${unit}`
}

/** A fraction in per cent. Less than all is never shown as 100 %. */
export function shareOf(share: number | null): string {
  if (share === null || !Number.isFinite(share)) return unreal(share)
  if (share > 0.9995 && share < 1) return '> 99.9 %'
  if (share > 0 && share < 0.0001) return '< 0.01 %'
  return `${short.format(share * 100)} %`
}

function digits(value: number): string {
  const size = Math.abs(value)
  if (size >= 1e6) return value.toExponential(2)
  return size >= 100 ? whole.format(value) : value.toPrecision(3)
}

function unreal(value: number | null): string {
  if (value === Infinity) return '∞'
  return value === -Infinity ? '-∞' : '–'
}
