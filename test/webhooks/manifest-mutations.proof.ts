import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { prepareExtensions } from '../../src/config/extensions.ts';
import { readSettings } from '../../src/config/settings.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import type { Json } from '../../src/model/json.ts';
import { runGates } from '../../src/webhooks/pipeline.ts';
import { resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { signDelivery } from '../../src/webhooks/schemes/sign.ts';
import { createTriggerTable, type PreparedTrigger } from '../../src/webhooks/triggers.ts';
import { FakeClock, NOW, sampleDelivery } from './samples.ts';

const FOLDER = join(import.meta.dirname, '../../manifests');

/** Fields whose edits clearly say that less is checked, so the author intends it. */
const SAYS_SO = ['webhookEnforcementMode', 'webhookSignatureScheme', 'webhookReplayToleranceSeconds', 'inputs'];

const clock = new FakeClock();
// The weakest default: anything that a manifest does not set is off.
const settings = readSettings({ SLUICE_ENFORCEMENT_MODE: 'Off' });
const extensions = prepareExtensions({ settings, extensions: {}, environment: {}, clock, folder: FOLDER });

type Path = readonly string[];

interface Mutation {
  readonly field: string;
  readonly what: string;
  readonly manifest: Json;
}

/** Undefined if the manifest does not load; then it accepts no deliveries. */
function load(manifest: Json): PreparedTrigger[] | undefined {
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'sample.json', extensions.rules.folder);
  if (flow === undefined || issues.some(({ severity }) => severity === 'error')) return undefined;
  const { id, name, version } = flow.manifest;
  const record = { id, name, version, revision: 1, isEnabled: true, createdAt: NOW, updatedAt: NOW };
  const table = createTriggerTable({
    flows: [{ record, loaded: flow, prepared: prepareRevision(flow.manifest, 'folder') }],
    defaultMode: settings.enforcementMode,
    preparer: extensions.gates,
  });
  return [...table.list()];
}

/** Deliveries to the trigger, each wrong in one way. */
function wrongDeliveries({ trigger }: PreparedTrigger) {
  const scheme = resolveScheme(extensions.gates.settings.schemes, trigger.inputs);
  const key = trigger.keys.current;
  if (scheme?.kind !== 'spec' || key === undefined) throw new Error('the sample signs nothing');
  const body = Buffer.from('{"id":"evt_1"}');
  const sign = (given: { key?: string; timestampMs?: number }) => {
    const request = { spec: scheme.spec, key, body, url: 'https://a.example/x', timestampMs: NOW, deliveryId: 'd' };
    const { headers } = signDelivery({ ...request, contentType: 'application/json', ...given });
    return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  };
  const wrong = [
    sampleDelivery({ body }),
    sampleDelivery({ body, headers: sign({ key: 'whsec_c29tZWJvZHkgZWxzZQ==' }) }),
    sampleDelivery({ body: Buffer.from('{"id":"evt_2"}'), headers: sign({}) }),
  ];
  if (scheme.spec.timestamp === undefined) return wrong;
  return [...wrong, sampleDelivery({ body, headers: sign({ timestampMs: NOW - 86_400_000 }) })];
}

async function refuses(
  triggers: readonly PreparedTrigger[] | undefined,
  slug: string,
  delivery: ReturnType<typeof sampleDelivery>,
) {
  const prepared = triggers?.find(({ trigger }) => trigger.inputs.webhookSlug === slug);
  if (prepared === undefined) return true;
  return (await runGates(prepared.gates, delivery, prepared.mode)).refusal !== null;
}

function mutationsOf(manifest: Json): Mutation[] {
  return pathsOf(manifest, []).flatMap((path) => {
    const field = path.at(-1) ?? '';
    const value = path.reduce<Json | undefined>((at, name) => (at as Record<string, Json>)[name], manifest);
    const replacements = [null, '', ' ', 'x', 'Off', 0, -1, 1, 1e9, true, false, [], {}, ...variantsOf(value)];
    return [
      { field, what: 'left out', manifest: changed(manifest, path, () => []) },
      { field, what: 'misspelt', manifest: changed(manifest, path, (it) => [[`${field}s`, it]]) },
      { field, what: 'in another case', manifest: changed(manifest, path, (it) => [[field.toUpperCase(), it]]) },
      ...replacements.map((next) => ({
        field,
        what: `set to ${JSON.stringify(next)}`,
        manifest: changed(manifest, path, () => [[field, next]]),
      })),
    ];
  });
}

function variantsOf(value: Json | undefined): Json[] {
  if (typeof value === 'string')
    return [value.toLowerCase(), value.toUpperCase(), ` ${value} `, `${value}\u0000`, [value]];
  return typeof value === 'number' ? [value + 1, -value, String(value)] : [];
}

function pathsOf(value: Json, path: Path): Path[] {
  const own = path.length === 0 ? [] : [path];
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return own;
  return [...own, ...Object.entries(value).flatMap(([name, member]) => pathsOf(member, [...path, name]))];
}

/** A copy in which `edit` replaces one member. */
function changed(value: Json, [name, ...rest]: Path, edit: (value: Json) => [string, Json][]): Json {
  const members = Object.entries(value as Record<string, Json>);
  return Object.fromEntries(
    members.flatMap(([key, member]): [string, Json][] => {
      if (key !== name) return [[key, member]];
      return rest.length === 0 ? edit(member) : [[key, changed(member, rest, edit)]];
    }),
  );
}

describe.each(['github-push.json', 'payments.json'])('%s', (file) => {
  const manifest = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Json;
  const [sample] = load(manifest) ?? [];
  if (sample === undefined) throw new Error('the sample has no webhook');
  const slug = sample.trigger.inputs.webhookSlug ?? '';
  const deliveries = wrongDeliveries(sample);

  it('refuses each wrong delivery as it is', async () => {
    for (const delivery of deliveries) expect(await refuses([sample], slug, delivery)).toBe(true);
  });

  it('lets none of them pass after any edit of a field but those that say so', async () => {
    const mutations = mutationsOf(manifest);
    expect(mutations.length).toBeGreaterThan(300);
    const opened = new Map<string, Set<string>>();
    for (const mutation of mutations) {
      const triggers = load(mutation.manifest);
      for (const delivery of deliveries) {
        if (await refuses(triggers, slug, delivery)) continue;
        opened.set(mutation.field, (opened.get(mutation.field) ?? new Set()).add(mutation.what));
      }
    }
    expect([...opened.keys()].filter((field) => !SAYS_SO.includes(field))).toEqual([]);
    for (const [field, edits] of opened) {
      // A misspelt name is refused at load, because it is never intended.
      expect([field, ...edits]).not.toContain('misspelt');
    }
    expect([...(opened.get('webhookEnforcementMode') ?? [])].sort()).toEqual(['left out', 'set to "Off"']);
  });
});
