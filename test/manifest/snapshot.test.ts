// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseManifest } from '../../src/manifest/load.ts';
import type { LoadedFlow } from '../../src/manifest/parse.ts';
import type { Json } from '../../src/model/json.ts';
import { FLOW_ID, goodManifest, rules } from './rules.ts';

const STRUCTURAL = new Set(
  [
    '$schema id name version triggers steps type inputs runAfter retry timeoutSeconds statuses when',
    'maxAttempts backoffSeconds factor maxBackoffSeconds jitter',
  ].flatMap((names) => names.split(' ')),
);

/** Contains every structural key, and other keys only where they do not look like one. */
const everything = {
  $schema: './manifest.schema.json',
  ...goodManifest(),
  triggers: { ...goodManifest().triggers, type: { type: 'manual', inputs: { Id: 1, id: 2 } } },
  steps: {
    ...goodManifest().steps,
    inputs: {
      type: 'NoOp',
      inputs: { When: 'a', when: 'b', RunAfter: { Type: 1 } },
      runAfter: { first: { statuses: ['Failed'], when: 'steps.first.status == "Failed"' } },
      retry: { maxAttempts: 3, backoffSeconds: 0.5, factor: 1, maxBackoffSeconds: 9, jitter: false },
      timeoutSeconds: 5,
    },
  },
};

describe('the snapshot', () => {
  it('is the same whatever the case of structural keys', () => {
    const expected = load(everything);
    fc.assert(
      fc.property(fc.infiniteStream(fc.boolean()), (flips) => {
        const flow = load(spellAnew(everything, flips));
        expect(flow.snapshot).toEqual(expected.snapshot);
        expect(flow.hash).toBe(expected.hash);
      }),
    );
  });

  it('is the same whatever the order of structural keys', () => {
    expect(load(reversed(goodManifest())).hash).toBe(load(goodManifest()).hash);
  });

  it('changes when anything in it changes', () => {
    const edits: ((manifest: ReturnType<typeof goodManifest>) => unknown)[] = [
      () => {},
      (m) => Object.assign(m, { name: 'Other' }),
      (m) => Object.assign(m, { version: '1.0.1' }),
      (m) => Object.assign(m.triggers.github?.inputs ?? {}, { webhookSlug: 'others' }),
      (m) => Object.assign(m.triggers.github?.inputs ?? {}, { webhookHmacKey: 'env:GITHUB_KEY_OLD' }),
      (m) => Object.assign(m.steps.first ?? {}, { inputs: { any: 'other' } }),
      (m) => Object.assign(m.steps.first ?? {}, { retry: { maxAttempts: 2 } }),
      (m) => Object.assign(m.steps, { fourth: { type: 'NoOp' } }),
    ];
    const hashes = edits.map((edit) => {
      const manifest = goodManifest();
      edit(manifest);
      return load(manifest).hash;
    });
    expect(new Set(hashes).size).toBe(edits.length);
  });

  it('leaves out where an editor finds the schema', () => {
    const { snapshot, hash } = load({ $schema: './manifest.schema.json', ...goodManifest() });
    expect(snapshot).not.toHaveProperty('$schema');
    expect(hash).toBe(load(goodManifest()).hash);
  });

  it('hashes to SHA-256 of its JSON', () => {
    const { snapshot, hash } = load(goodManifest());
    expect(hash).toBe(createHash('sha256').update(JSON.stringify(snapshot)).digest('hex'));
  });

  it('survives JSON and holds everything but literal secrets', () => {
    const { manifest, snapshot } = load(goodManifest());
    expect(snapshot).toEqual(JSON.parse(JSON.stringify(manifest)));
  });

  it('keeps references and masks literal secrets, in webhook triggers and in steps', () => {
    const manifest = {
      id: FLOW_ID,
      version: '1',
      triggers: {
        hook: {
          type: 'webhook',
          inputs: {
            webhookHmacKey: 'literal-one',
            webhookHmacKeyPrevious: 'env:GITHUB_KEY_OLD',
            webhookSecret: 'literal-two',
            webhookSecretPrevious: '',
            webhookVerifyToken: 'literal-six',
            note: 'literal-three',
          },
        },
      },
      steps: {
        call: {
          type: 'HttpRequest',
          inputs: {
            url: 'https://example.com/',
            headers: {
              authorization: 'literal-four',
              'X-Auth-Token': 'env:API_TOKEN',
              cookie: 'a=${trigger.body.a}',
              'x-api-key': 'literal-five',
              accept: 'text/plain',
            },
          },
        },
      },
    };
    const { snapshot, manifest: kept } = load(manifest);
    expect(JSON.stringify(snapshot)).not.toContain('literal-');
    expect(snapshot).toMatchObject({
      triggers: {
        hook: {
          inputs: {
            webhookHmacKey: '***',
            webhookHmacKeyPrevious: 'env:GITHUB_KEY_OLD',
            webhookVerifyToken: '***',
          },
        },
      },
      steps: {
        call: {
          inputs: {
            headers: {
              authorization: '***',
              'X-Auth-Token': 'env:API_TOKEN',
              cookie: 'a=${trigger.body.a}',
              'x-api-key': '***',
              accept: 'text/plain',
            },
          },
        },
      },
    });
    expect(kept.steps.call?.inputs).toEqual(manifest.steps.call.inputs);
    expect(kept.triggers.hook?.inputs).not.toHaveProperty('note');
  });
});

function load(manifest: unknown): LoadedFlow {
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
  if (flow === undefined) throw new Error(JSON.stringify(issues));
  return flow;
}

/** Changes the case of structural keys, only on their own levels. */
function spellAnew(manifest: typeof everything, flips: Iterator<boolean>): unknown {
  const spell = (key: string) =>
    STRUCTURAL.has(key)
      ? [...key].map((letter) => (flips.next().value ? letter.toUpperCase() : letter.toLowerCase())).join('')
      : key;
  const keys = (value: unknown, inner: (key: string, item: unknown) => unknown): unknown =>
    isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([key, item]) => [spell(key), inner(key, item)]))
      : value;
  const entries = (value: unknown, inner: (item: unknown) => unknown): unknown =>
    isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inner(item)])) : value;
  const flat = (value: unknown) => keys(value, (_key, item) => item);
  const step = (value: unknown) =>
    keys(value, (key, item) => {
      if (key === 'runAfter') return entries(item, flat);
      return key === 'retry' ? flat(item) : item;
    });
  return keys(manifest, (key, item) => {
    if (key === 'triggers') return entries(item, flat);
    return key === 'steps' ? entries(item, step) : item;
  });
}

function reversed(manifest: ReturnType<typeof goodManifest>): unknown {
  const backwards = (value: object) => Object.fromEntries(Object.entries(value).reverse());
  const each = (values: Record<string, Record<string, Json>>) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, backwards(value)]));
  return backwards({ ...manifest, triggers: each(manifest.triggers), steps: each(manifest.steps) });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
