import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { identity, identityVariable, matmulSlow } from '../models/small.ts'

/** Paths of the models that the fixtures load, by the names they know them under. */
export function models() {
  return {
    small: identity('float32'),
    /** Rows of any length. */
    variable: identityVariable('float32'),
    /** 64 rows of 1024 take a few hundred milliseconds. */
    slow: matmulSlow(1024, 200),
    /** Takes a second or more to open. */
    slowToOpen: matmulSlow(512, 4000),
    longStrings: longStrings(),
  }
}

const doublings = 16

/** y = x repeated 65 536 times, string by string, ['N', 1]: a short request with a huge answer. */
function longStrings(): string {
  return modelPath(`long-strings-${doublings}`, () => {
    const value = (step: number) => (step === 0 ? 'x' : step === doublings ? 'y' : `x${step}`)
    const model = graph('long-strings').input('x', 'string', ['N', 1]).output('y', 'string', ['N', 1])
    for (let step = 0; step < doublings; step++) {
      model.node('StringConcat', [value(step), value(step)], [value(step + 1)])
    }
    return model.build({ opset: 20, irVersion: 9 })
  })
}
