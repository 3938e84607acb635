import { InvalidArgumentError } from 'commander'

/** Values of options of benchmarks. */

export const above0 = (value: string): number => {
  if (!(Number(value) > 0)) throw new InvalidArgumentError('A number above 0 is expected.')
  return Number(value)
}

export const count = (value: string): number => {
  if (!/^[1-9]\d*$/.test(value)) throw new InvalidArgumentError('A whole number of at least 1 is expected.')
  return Number(value)
}
