import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Places } from '../../src/model/places.ts';

it('keeps what was added and not taken, each at a place that no other has', () => {
  const steps = fc.array(fc.oneof(fc.constant('add' as const), fc.constant('all' as const), fc.nat(20)));
  fc.assert(
    fc.property(steps, (given) => {
      const places = new Places<{ readonly n: number }>();
      const model = new Map<number, { readonly n: number }>();
      for (const [n, step] of given.entries()) {
        if (step === 'add') {
          const item = { n };
          const place = places.add(item);
          expect(model.has(place)).toBe(false);
          model.set(place, item);
        } else if (step === 'all') {
          expect(new Set(places.takeAll())).toEqual(new Set(model.values()));
          model.clear();
        } else {
          expect(places.at(step)).toBe(model.get(step));
          expect(places.take(step)).toBe(model.get(step));
          model.delete(step);
        }
        expect(places.size).toBe(model.size);
        expect(new Set(places.items())).toEqual(new Set(model.values()));
      }
    }),
  );
});

it('gives the places of what was taken again', () => {
  const places = new Places<object>();
  const used = new Set<number>();
  for (let count = 0; count < 1000; count += 1) {
    const place = places.add({});
    used.add(place);
    places.take(place);
  }
  expect(used.size).toBe(1);
});
