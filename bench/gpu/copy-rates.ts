import { median } from '../statistics.ts'

/** Copies between one piece of memory and the device, as the program `copies` prints them. */
export interface CopyRate {
  readonly memory: 'link' | 'page-locked' | 'pageable'
  readonly bytes: number
  /** In GB/s, as the other direction. */
  readonly toDevice: number
  readonly fromDevice: number
  /** Whether what went to the device came back as it was. */
  readonly right: boolean
}

/** The same, to what the link can do. */
export interface RateOfLink extends CopyRate {
  readonly toDeviceOfLink: number
  readonly fromDeviceOfLink: number
}

/** Of several runs of the program, which list the same memory; right where all were. */
export function mediansOf(runs: readonly (readonly CopyRate[])[]): CopyRate[] {
  return runs[0]!.map(({ memory, bytes }, index) => {
    const same = runs.map((run) => run[index]!)
    return {
      memory,
      bytes,
      toDevice: median(same.map(({ toDevice }) => toDevice)),
      fromDevice: median(same.map(({ fromDevice }) => fromDevice)),
      right: same.every(({ right }) => right),
    }
  })
}

export function ofTheLink(rates: readonly CopyRate[]): RateOfLink[] {
  const link = rates.find(({ memory }) => memory === 'link')
  if (link === undefined) throw new Error('the rate of the link was not measured')
  return rates.map((rate) => ({
    ...rate,
    toDeviceOfLink: rate.toDevice / link.toDevice,
    fromDeviceOfLink: rate.fromDevice / link.fromDevice,
  }))
}
