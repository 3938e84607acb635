import { readFileSync } from 'node:fs'
import { InvalidArgumentError } from 'commander'
import type { ServiceTable } from '../../packages/perf/src/simulation/service-times.ts'
import type { OpenArrivals, Step } from '../../packages/perf/src/simulation/traffic.ts'
import { policyNames, type PolicyName, type Scenario } from './scenario.ts'

/** Values of the command line; each throws what commander reports. */
export const parse = {
  above0,
  atLeast0,
  count,
  countOr0,
  numbers,
  sizes,
  service,
  rows,
  steps,
  policies,
  trace,
}

function above0(value: string): number {
  if (!(Number(value) > 0)) throw new InvalidArgumentError('A number above 0 is expected.')
  return Number(value)
}

function atLeast0(value: string): number {
  if (!(Number(value) >= 0)) throw new InvalidArgumentError('A number of at least 0 is expected.')
  return Number(value)
}

function count(value: string): number {
  if (!/^[1-9]\d*$/.test(value)) throw new InvalidArgumentError('A whole number of at least 1 is expected.')
  return Number(value)
}

function countOr0(value: string): number {
  return value === '0' ? 0 : count(value)
}

function numbers(value: string): number[] {
  return value.split(',').map(atLeast0)
}

function sizes(value: string): number[] {
  return value
    .split(',')
    .map(count)
    .sort((a, b) => a - b)
}

function service(value: string): ServiceTable {
  return pairs(value, 'rows', 'ms')
    .map(([size, ms]) => ({ rows: count(size), ms: above0(ms) }))
    .sort((a, b) => a.rows - b.rows)
}

function rows(value: string): Scenario['rows'] {
  return pairs(value, 'rows', 'share').map(([size, share]) => ({ rows: count(size), share: above0(share) }))
}

function steps(value: string): Step[] {
  return pairs(value, 'ms', 'factor')
    .map(([fromMs, factor]) => ({ fromMs: atLeast0(fromMs), factor: atLeast0(factor) }))
    .sort((a, b) => a.fromMs - b.fromMs)
}

function policies(value: string): PolicyName[] {
  return value.split(',').map((name) => {
    const found = policyNames.find((known) => known === name)
    if (found === undefined) throw new InvalidArgumentError(`There are: ${policyNames.join(', ')}.`)
    return found
  })
}

/** A file of one request a line: its time in milliseconds and, if it has more than one, its rows. */
function trace(file: string): OpenArrivals {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.trim())
  const requests = lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [atMs, size] = line.split(',')
      return size === undefined ? { atMs: atLeast0(atMs!) } : { atMs: atLeast0(atMs!), rows: count(size) }
    })
  return { kind: 'trace', trace: requests.sort((a, b) => a.atMs - b.atMs) }
}

function pairs(value: string, first: string, second: string): [string, string][] {
  return value.split(',').map((pair) => {
    const parts = pair.split(':')
    if (parts.length !== 2)
      throw new InvalidArgumentError(`Pairs ${first}:${second} with commas between them are expected.`)
    return [parts[0]!, parts[1]!]
  })
}
