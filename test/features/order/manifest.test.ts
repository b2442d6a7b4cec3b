import { expect, it } from 'vitest';
import { parseManifest } from '../../../src/manifest/load.ts';
import { FLOW_ID, rules } from '../../manifest/rules.ts';

it.each([
  [{}, []],
  [{ serialize: 'trigger.body.id', serializeOnFailure: 'stop' }, []],
  [{ serializeOnFailure: 'stop' }, ['serializeOnFailure: has no meaning without `serialize`']],
  [{ serialize: 'steps.a.output' }, ['serialize: expression']],
  [{ serialize: 'trigger.headers["authorization"]' }, ['serialize: reads the header authorization']],
])('an order of %j has these mistakes', (given, mistakes) => {
  const manifest = { id: FLOW_ID, version: '1', ...given, triggers: {}, steps: { a: { type: 'NoOp' } } };
  const { issues } = parseManifest(JSON.stringify(manifest), 'order.json', rules);
  const found = issues.map(({ path, message }) => `${path}: ${message}`);
  expect(found).toEqual(mistakes.map((mistake) => expect.stringContaining(mistake)));
});
