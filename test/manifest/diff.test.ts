import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { diffSnapshots } from '../../src/manifest/diff.ts';
import type { Json } from '../../src/model/json.ts';

describe('the differences of two manifests', () => {
  it.each<[Json, Json, unknown]>([
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, []],
    [{ a: 1 }, { a: 2 }, [{ path: 'a', kind: 'changed', before: 1, after: 2 }]],
    [{}, { a: { b: 1 } }, [{ path: 'a', kind: 'added', after: { b: 1 } }]],
    [{ a: { b: null } }, { a: {} }, [{ path: 'a.b', kind: 'removed', before: null }]],
    [
      { a: { 'x y': [1, 2] } },
      { a: { 'x y': [1, 3] } },
      [{ path: 'a["x y"][1]', kind: 'changed', before: 2, after: 3 }],
    ],
    [{ a: [1] }, { a: [1, 2] }, [{ path: 'a', kind: 'changed', before: [1], after: [1, 2] }]],
    [{ a: {} }, { a: [] }, [{ path: 'a', kind: 'changed', before: {}, after: [] }]],
    [1, '1', [{ path: '', kind: 'changed', before: 1, after: '1' }]],
  ])('%j and %j', (before, after, expected) => {
    expect(diffSnapshots(before, after)).toEqual(expected);
  });

  it('are none exactly where the two are equal', () => {
    const any = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
    fc.assert(
      fc.property(any, any, (one, other) => {
        expect(diffSnapshots(one, structuredClone(one))).toEqual([]);
        expect(diffSnapshots(one, other).length === 0).toBe(isEqual(one, other));
      }),
    );
  });
});

function isEqual(one: Json, other: Json): boolean {
  const sorted = (value: Json): unknown =>
    Array.isArray(value)
      ? value.map(sorted)
      : typeof value === 'object' && value !== null
        ? Object.entries(value)
            .map(([key, inner]) => [key, sorted(inner)])
            .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
            .concat([['{}', null]])
        : value;
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}
