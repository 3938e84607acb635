import { spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { Worker } from 'node:worker_threads'

/** The other end: answers each notification, asleep in between. */
const echo = `
const { workerData } = require('node:worker_threads')
;(async () => {
  for (let turn = 0; ; turn++) {
    const wait = Atomics.waitAsync(workerData, 0, turn)
    if (wait.async) await wait.value
    Atomics.store(workerData, 1, turn + 1)
    Atomics.notify(workerData, 1)
  }
})()
setInterval(() => {}, 1 << 30)`

/** A bare notification to another thread's event loop, and one back. */
export class PingPong {
  readonly #words = new Int32Array(new SharedArrayBuffer(8))
  readonly #worker = new Worker(echo, { eval: true, workerData: this.#words })
  #turn = 0

  async play(): Promise<void> {
    const wait = Atomics.waitAsync(this.#words, 1, this.#turn)
    Atomics.store(this.#words, 0, ++this.#turn)
    Atomics.notify(this.#words, 0)
    if (wait.async) await wait.value
  }

  async end(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** A byte over a Unix socket to another process's event loop, and one back. */
export class ProcessPingPong {
  readonly #child = spawn(
    process.execPath,
    ['-e', "const end = new (require('net').Socket)({ fd: 3 }); end.on('data', (byte) => end.write(byte))"],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    },
  )
  readonly #socket = this.#child.stdio[3] as Duplex

  play(): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.once('data', () => resolve())
      this.#socket.write('!')
    })
  }

  end(): void {
    this.#socket.destroy() // the other end goes with it
  }
}
