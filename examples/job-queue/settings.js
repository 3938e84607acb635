import { readFileSync } from 'node:fs'

/**
 * What the environment says, with defaults; what is set to nothing is not set.
 *
 * @param {Readonly<Record<string, string | undefined>>} environment
 */
export function readSettings(environment) {
  const atLeast = (least, name, otherwise) => {
    const value = Number(environment[name] || otherwise)
    if (!Number.isInteger(value) || value < least)
      throw new Error(`${name}: expected a whole number of at least ${least}, received ${environment[name]}`)
    return value
  }
  return {
    redisUrl: environment['REDIS_URL'] || 'redis://127.0.0.1:6379',
    /** The folder with the pictures: jobs name them by their paths in it, so that it can lie elsewhere on each host. */
    pictures: environment['PICTURES'] || '.',
    model: environment['MODEL'] || undefined,
    /** Names of the classes, one a line; without them classes are shown by number. */
    labels: environment['LABELS']
      ? readFileSync(environment['LABELS'], 'utf8').trimEnd().split(/\r?\n/)
      : undefined,
    /** How pixels become what the model takes: options of `decodeImage`, as JSON. */
    image: readJson('IMAGE', environment['IMAGE'] || '{}'),
    /** Pictures that may wait for the model. */
    maxWaiting: atLeast(1, 'MAX_WAITING', 256),
    /** As many jobs are held as are done in this time: so long SIGTERM takes, and so much kill -9 has others do again. */
    holdMs: atLeast(1, 'HOLD_MS', 5000),
    /** For how long a job belongs to a worker that is not heard of. */
    lockMs: atLeast(100, 'LOCK_MS', 15_000),
    /** How often jobs are looked for that belong to nobody any more. */
    stalledMs: atLeast(100, 'STALLED_MS', 5000),
    /** So often a job may lose its worker, before it is taken to be what kills them. */
    maxStalls: atLeast(0, 'MAX_STALLS', 5),
  }
}

function readJson(name, text) {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`${name}: expected JSON, as {"channels":"bgr"}, received ${text}`, { cause })
  }
}
