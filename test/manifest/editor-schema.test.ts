import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Extensions } from '../../src/config/api.ts';
import { prepareExtensions } from '../../src/config/extensions.ts';
import { readSettings } from '../../src/config/settings.ts';
import { schemaText } from '../../src/features/schema/command.ts';
import { defineHandler } from '../../src/flows/handlers/handler.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The schema of an installation with these extensions, as `sluice schema` prints it. */
function textFor(extensions: Extensions = {}): string {
  const clock = { now: () => 0, monotonic: () => 0 };
  return schemaText(
    prepareExtensions({ settings: readSettings({}), extensions, environment: {}, clock, folder: ROOT }),
  );
}

/** The places that an editor marks in a manifest, each once. */
function checker(extensions?: Extensions): (manifest: unknown) => string[] {
  const validate = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).compile(
    JSON.parse(textFor(extensions)),
  );
  return (manifest) => {
    validate(manifest);
    const marked = (validate.errors ?? []).filter(({ keyword }) => !['if', 'anyOf', 'oneOf'].includes(keyword));
    return [
      ...new Set(
        marked.map(({ instancePath, params }) =>
          [instancePath, params.additionalProperty ?? params.missingProperty].filter(Boolean).join('/'),
        ),
      ),
    ];
  };
}

const marks = checker();
const manifest = (parts: object) => ({ id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', ...parts });
const withStep = (step: object) => manifest({ steps: { it: step } });
const withInputs = (inputs: object) => manifest({ triggers: { hook: { type: 'webhook', inputs } } });

/** Complete manifests in the pages, and the samples. */
const MANIFESTS = [
  ...readdirSync(join(ROOT, 'manifests'))
    .filter((name) => !name.endsWith('.schema.json'))
    .map((name) => [name, readFileSync(join(ROOT, 'manifests', name), 'utf8')] as const),
  ...readdirSync(join(ROOT, 'docs/publishers')).flatMap((name) => {
    const text = readFileSync(join(ROOT, 'docs/publishers', name), 'utf8');
    const [, json = ''] = /```json\n(\{\n {2}"\$schema"[\s\S]*?)```/.exec(text) ?? [];
    return json === '' ? [] : [[name, json] as const];
  }),
];

describe('the schema for editors', () => {
  it('is in the folder of the samples; `npm run schema` prints it', () => {
    expect(readFileSync(join(ROOT, 'manifests/manifest.schema.json'), 'utf8')).toBe(textFor());
  });

  it.each(MANIFESTS)('marks nothing in the manifest of %s', (_, text) => {
    expect(marks(JSON.parse(text))).toEqual([]);
  });

  it.each([
    ['a structural key', manifest({ stepps: {} }), 'stepps'],
    ['a step type', withStep({ type: 'HttpReqest', inputs: {} }), '/steps/it/type'],
    [
      'an input of a step',
      withStep({ type: 'LogMessage', inputs: { mesage: 'x', message: 'x' } }),
      '/steps/it/inputs/mesage',
    ],
    ['a value of an input', withStep({ type: 'Delay', inputs: { seconds: 'ten' } }), '/steps/it/inputs/seconds'],
    ['a level', withStep({ type: 'LogMessage', inputs: { message: 'x', level: 'loud' } }), '/steps/it/inputs/level'],
    ['a missing input', withStep({ type: 'HttpRequest', inputs: {} }), '/steps/it/inputs/url'],
    ['missing inputs', withStep({ type: 'HttpRequest' }), '/steps/it/inputs'],
    ['a field of loops on another step', withStep({ type: 'NoOp', forEach: [] }), '/steps/it/forEach'],
    ['a loop without steps', withStep({ type: 'ForEach', forEach: [1] }), '/steps/it/steps'],
    ['a scheme', withInputs({ webhookSignatureScheme: 'Strype' }), '/triggers/hook/inputs/webhookSignatureScheme'],
    ['a mode', withInputs({ webhookEnforcementMode: 'On' }), '/triggers/hook/inputs/webhookEnforcementMode'],
    ['a preset', withInputs({ webhookIpAllowListPreset: 'strype' }), '/triggers/hook/inputs/webhookIpAllowListPreset'],
    [
      'one of several presets',
      withInputs({ webhookIpAllowListPresets: ['a'] }),
      '/triggers/hook/inputs/webhookIpAllowListPresets/0',
    ],
  ])('marks a mistake in %s', (_, wrong, place) => {
    expect(marks(wrong)).toContain(place);
  });

  it('takes an expression for any input, also inside loops', () => {
    const inputs = { url: `\${steps.a.output}`, timeoutSeconds: `\${trigger.body.limit}`, forwardBody: `\${true}` };
    expect(marks(withStep({ type: 'HttpRequest', inputs }))).toEqual([]);
    const steps = { each: { type: 'Delay', inputs: { seconds: `\${loop.item}` } } };
    expect(marks(withStep({ type: 'ForEach', forEach: `\${trigger.body.lines}`, steps }))).toEqual([]);
    const wrong = { each: { type: 'Delay', inputs: { seconds: [] } } };
    expect(marks(withStep({ type: 'ForEach', forEach: [1], steps: wrong }))).toContain(
      '/steps/it/steps/each/inputs/seconds',
    );
  });

  it('takes no expression where a run pins what it is when it starts', () => {
    const flow = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
    const marked = (inputs: object) => marks(withStep({ type: 'RunFlow', inputs }));
    expect(marked({ flow, wait: false, body: `\${trigger.body}` })).toEqual([]);
    expect(marked({ flow: `\${trigger.body.flow}`, wait: `\${true}` })).toEqual([
      '/steps/it/inputs/flow',
      '/steps/it/inputs/wait',
    ]);
  });

  it('knows the step types and schemes of the config module, with descriptions and defaults', () => {
    const greet = defineHandler({
      type: 'Greet',
      inputs: z.object({ name: z.string(), times: z.int().default(1).describe('How often.') }),
      run: () => ({ kind: 'succeeded', output: null }),
    });
    const verifier = { name: 'Acme', verify: () => ({ outcome: 'verified' as const }) };
    const own = checker({ handlers: [greet], verifiers: [verifier] });
    expect(own(withStep({ type: 'Greet', inputs: { name: 'a', times: 2 } }))).toEqual([]);
    expect(own(withStep({ type: 'Greet', inputs: { times: true } }))).toEqual(
      expect.arrayContaining(['/steps/it/inputs/name', '/steps/it/inputs/times']),
    );
    expect(own(withInputs({ webhookSignatureScheme: 'Acme' }))).toEqual([]);
    expect(marks(withStep({ type: 'Greet', inputs: { name: 'a' } }))).toContain('/steps/it/type');
    expect(textFor({ handlers: [greet] })).toMatch(/"description": "How often\.",\s+"default": 1/);
  });

  it('leaves the inputs of a step type open that JSON Schema cannot tell in one piece', () => {
    const tree: z.ZodType = z.object({
      get children() {
        return z.array(tree);
      },
    });
    const grow = defineHandler({ type: 'Grow', inputs: tree, run: () => ({ kind: 'succeeded', output: null }) });
    expect(checker({ handlers: [grow] })(withStep({ type: 'Grow', inputs: { children: 1 } }))).toEqual([]);
  });
});
