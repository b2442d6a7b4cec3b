import { expect, it } from 'vitest';
import { checkOrder } from '../../src/manifest/order.ts';

it.each([
  [{}, []],
  [{ serialize: 'trigger.body.id', serializeOnFailure: 'stop' }, []],
  [{ serializeOnFailure: 'stop' }, ['serializeOnFailure: has no meaning without `serialize`']],
  [{ serialize: 'steps.a.output' }, ['serialize: expression']],
  [{ serialize: 'trigger.headers["authorization"]' }, ['serialize: reads the header authorization']],
])('an order of %j has these mistakes', (given, mistakes) => {
  const found = checkOrder(given).map(({ path, message }) => `${path}: ${message}`);
  expect(found).toEqual(mistakes.map((mistake) => expect.stringContaining(mistake)));
});
