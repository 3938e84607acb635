import { describe, expect, it } from 'vitest'
import { FairShare } from '../../src/pool/fair-share.ts'

/** Gives turns to whoever is least served among `wanting`, each batch taking the tenant's own time. */
function serve(share: FairShare<string>, wanting: string[], costMs: Record<string, number>, turns: number) {
  const servedMs: Record<string, number> = {}
  for (let turn = 0; turn < turns; turn++) {
    const { tenant } = share.leastServedFirst().find((candidate) => wanting.includes(candidate.tenant))!
    share.settle(share.charge(tenant), costMs[tenant]!)
    servedMs[tenant] = (servedMs[tenant] ?? 0) + costMs[tenant]!
  }
  return servedMs
}

describe('FairShare', () => {
  it('divides the time evenly, not the turns', () => {
    const share = new FairShare<string>()
    share.join('heavy')
    share.join('light')
    const servedMs = serve(share, ['heavy', 'light'], { heavy: 100, light: 1 }, 5000)
    expect(servedMs['heavy']! / servedMs['light']!).toBeCloseTo(1, 1)
  })

  it('gives no credit for time in which a tenant wanted nothing', () => {
    const share = new FairShare<string>()
    share.join('steady')
    share.join('idle')
    serve(share, ['steady'], { steady: 10 }, 1000)
    const servedMs = serve(share, ['steady', 'idle'], { steady: 10, idle: 10 }, 100)
    expect(servedMs['idle']).toBeLessThanOrEqual(servedMs['steady']! + 20)
  })

  it('lets a newcomer start level with the others', () => {
    const share = new FairShare<string>()
    share.join('old')
    serve(share, ['old'], { old: 5 }, 100)
    share.join('new')
    const servedMs = serve(share, ['old', 'new'], { old: 5, new: 5 }, 100)
    expect(Math.abs(servedMs['old']! - servedMs['new']!)).toBeLessThanOrEqual(10)
  })

  it('charges two batches in flight separately', () => {
    const share = new FairShare<string>()
    share.join('a')
    const [first, second] = [share.charge('a'), share.charge('a')]
    share.settle(first, 30)
    share.settle(second, 10)
    expect(share.leastServedFirst()[0]).toMatchObject({ tenant: 'a', finishMs: 40 })
  })

  it('forgets a tenant that parts', () => {
    const share = new FairShare<string>()
    share.join('a')
    share.part('a')
    share.part('a')
    expect(share.size).toBe(0)
  })
})
