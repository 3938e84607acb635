import { spawnSync } from 'node:child_process'

/** A network of its own on this machine, joined to it by one cable: a host, as far as TCP can tell. */
export interface Host {
  /** Where programs on it reach this machine. */
  readonly gateway: string
  /** What a command begins with that is to run there. */
  readonly within: readonly string[]
  /** Pulls its cable, or plugs it in again: neither side is told. */
  plug(isIn: boolean): void
  remove(): void
}

/** @param number from 1 on. Addresses are of those that are kept for benchmarks of networks, names of this process. */
export function createHost(number: number): Host {
  const name = `zh${process.pid}h${number}`
  const [outside, inside] = [`${name}o`, `${name}i`]
  const subnet = `198.18.${process.pid % 256}`
  const [gateway, address] = [`${subnet}.${4 * number + 1}`, `${subnet}.${4 * number + 2}`]
  const remove = () => {
    ip(`link delete ${outside}`)
    ip(`netns delete ${name}`)
  }
  const commands = [
    `netns add ${name}`,
    `link add ${outside} type veth peer name ${inside} netns ${name}`,
    `address add ${gateway}/30 dev ${outside}`,
    `link set ${outside} up`,
    `-n ${name} address add ${address}/30 dev ${inside}`,
    `-n ${name} link set ${inside} up`,
    `-n ${name} link set lo up`,
    `netns exec ${name} true`,
  ]
  const failure = commands.map((command) => ip(command)).find((said) => said !== '')
  if (failure !== undefined) {
    remove()
    throw new Error(failure)
  }
  return {
    gateway,
    within: ['ip', 'netns', 'exec', name],
    plug: (isIn) => void ip(`link set ${outside} ${isIn ? 'up' : 'down'}`),
    remove,
  }
}

/** @returns what went wrong; nothing where nothing did. */
function ip(command: string): string {
  const { status, stderr, error } = spawnSync('ip', command.split(' '), { encoding: 'utf8' })
  return status === 0 ? '' : `ip ${command}: ${error?.message ?? stderr.trim()}`
}

/** For the name of a suite that needs hosts: why there can be none here, or nothing. */
export const missingHosts = whyNot()

function whyNot(): string {
  try {
    createHost(0).remove()
    return ''
  } catch (error) {
    return ` (skipped: no network namespaces: ${(error as Error).message})`
  }
}
