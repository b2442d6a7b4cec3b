// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { expect, it, test } from 'vitest';
import { readSettings } from '../../src/config/settings.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { goodManifest, issuesAfter, rules } from './rules.ts';

const vars = { REGION: 'eu', LIMIT: '5' };
const issuesOf = (message: string, given: Record<string, string> = vars) =>
  issuesAfter(({ steps }) => Object.assign(steps.second ?? {}, { inputs: { message } }), { ...rules, vars: given });

test('a value by environment is read by its name, and another is an error that lists those that are set', () => {
  expect(issuesOf('${vars.REGION} ${vars["LIMIT"]}')).toEqual([]);
  expect(issuesOf('${vars.REGOIN}').join()).toMatch(
    /^error .*reads vars.REGOIN, which is not set: .*; known are REGION, LIMIT$/,
  );
  expect(issuesOf('${vars.toString}').join()).toContain('reads vars.toString, which is not set');
  expect(issuesOf('${vars.REGION}', {}).join()).toContain('none is set');
  expect(issuesOf('${vars[trigger.body.name]}').join()).toContain('without a name that is written out');
});

test.each([{ API_TOKEN: 'x' }, { REGION: 'whsec_abcdefghijklmnop' }, { REGION: 'aB3dE5gH7jK9mN1pQ3sT5vW7' }])(
  'what looks like a secret is warned of: %j',
  (given) => {
    expect(issuesOf(`\${vars.${Object.keys(given)[0]}}`, given).join()).toMatch(/^warning .*looks like a secret/);
  },
);

it('belongs to the revision: another value is another revision, and a prepared one keeps its own', () => {
  const manifest = goodManifest();
  manifest.steps.second = { type: 'LogMessage', inputs: { message: '${vars.REGION}' } };
  const load = (REGION: string) =>
    parseManifest(JSON.stringify(manifest), 'flow.json', { ...rules, vars: { REGION, LIMIT: REGION } }).flow;
  const [one, other] = [load('eu'), load('us')];
  expect(one?.hash).not.toBe(other?.hash);
  expect(one?.files).toEqual({ 'vars.REGION': 'eu' });
  const prepared = one && prepareRevision(one.manifest, one.source, one.files);
  expect(
    prepared
      ?.step('second')
      ?.inputs()
      .template.render({ trigger: { body: 1, headers: {}, key: '' }, steps: {} }),
  ).toEqual({
    message: 'eu',
  });
});

test('the environment wins over the config module', () => {
  const { vars: read } = readSettings({ SLUICE_VAR_LIMIT: '7' }, { vars: { LIMIT: 5, REGION: 'eu', ON: true } });
  expect(read).toEqual({ LIMIT: '7', REGION: 'eu', ON: 'true' });
  expect(() => readSettings({ 'SLUICE_VAR_A-B': '7' })).toThrow('SLUICE_VAR_A-B: is not');
  expect(() => readSettings({ SLUICE_VARS: '7' })).toThrow('SLUICE_VARS: no such setting');
});
