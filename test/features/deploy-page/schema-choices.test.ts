import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type Around, choices, type Schema } from '../../../src/features/deploy-page/schema-choices.ts';

const schema: Schema = JSON.parse(
  readFileSync(new URL('../../../manifests/manifest.schema.json', import.meta.url), 'utf8'),
);

const whole: Around = { key: null, type: undefined };
const inside = (...keys: (string | [key: string, type: string])[]): Around[] => [
  whole,
  ...keys.map((each) => (typeof each === 'string' ? { key: each, type: undefined } : { key: each[0], type: each[1] })),
];
const namesIn = (around: readonly Around[]) => choices.names(schema, around).map(({ name }) => name);

it('names the fields of a manifest, with what they mean', () => {
  expect(namesIn([whole])).toEqual(expect.arrayContaining(['id', 'name', 'version', 'triggers', 'steps']));
  const id = choices.names(schema, [whole]).find(({ name }) => name === 'id');
  expect(id?.description).toContain('GUID');
});

it('names the inputs of a trigger by its type', () => {
  expect(namesIn(inside('triggers', ['shop', 'webhook'], 'inputs'))).toContain('webhookSlug');
  const ofCron = namesIn(inside('triggers', ['nightly', 'cron'], 'inputs'));
  expect(ofCron).toContain('cronExpression');
  expect(ofCron).not.toContain('webhookSlug');
});

it('names the inputs of a step by its type, inside loops too', () => {
  expect(namesIn(inside('steps', ['call', 'HttpRequest'], 'inputs'))).toContain('url');
  expect(namesIn(inside('steps', ['say', 'LogMessage'], 'inputs'))).not.toContain('url');
  const inLoop = inside('steps', ['each', 'ForEach'], 'steps', ['call', 'HttpRequest'], 'inputs');
  expect(namesIn(inLoop)).toContain('url');
});

it('lists the values of what is a closed list', () => {
  const inputs = inside('triggers', ['shop', 'webhook'], 'inputs');
  expect(choices.values(schema, inputs, 'webhookEnforcementMode')).toEqual(['Off', 'Audit', 'Enforce']);
  expect(choices.values(schema, inputs, 'webhookSignatureScheme')).toContain('GitHub');
  expect(choices.values(schema, inside('steps', 'any'), 'type')).toContain('WaitForSignal');
  expect(choices.values(schema, inside('triggers', 'any'), 'type')).toEqual(
    expect.arrayContaining(['manual', 'cron', 'webhook']),
  );
});

it('knows nothing of a place that no manifest has', () => {
  expect(namesIn(inside('nowhere', 'at all'))).toEqual([]);
  expect(choices.values(schema, inside('nowhere'), 'x')).toEqual([]);
});
