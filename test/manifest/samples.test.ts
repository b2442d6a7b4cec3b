import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { builtInHandlers, handlerTable } from '../../src/flows/handlers/index.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { loadManifests } from '../../src/manifest/load.ts';
import { manifestJsonSchema } from '../../src/manifest/schema.ts';
import { rules as testRules } from './rules.ts';

const rules = { ...testRules, handlers: handlerTable(builtInHandlers({ egressAllow: [] })) };

const SAMPLES = 'approval export-poll github-push nightly-report order payments'
  .split(' ')
  .map((name) => `${name}.json`);
const FOLDER = join(import.meta.dirname, '../../manifests');

describe('the sample manifests', () => {
  it('load with a warning for each demo key and nothing else', async () => {
    const { flows, issues } = await loadManifests(FOLDER, rules);
    expect(issues.map((issue) => formatIssue(issue).replace(`${FOLDER}/`, ''))).toEqual([
      expect.stringContaining('warning github-push.json triggers.github.inputs.webhookHmacKey: holds a secret'),
      expect.stringContaining('warning payments.json triggers.stripe.inputs.webhookHmacKey: holds a secret'),
    ]);
    expect(flows.map(({ manifest }) => manifest.name)).toEqual([
      'Approval',
      'Export',
      'GitHub push',
      'Nightly report',
      'Order',
      'Payments',
    ]);
    expect(flows.flatMap(({ webhooks }) => webhooks.map(({ inputs }) => inputs.webhookSlug))).toEqual([
      'github-push',
      'payments',
    ]);
  });

  it('keep their demo keys out of the snapshot', async () => {
    const { flows } = await loadManifests(FOLDER, rules);
    expect(JSON.stringify(flows.map(({ snapshot }) => snapshot))).not.toContain('demo');
  });
});

describe('the JSON Schema', () => {
  const schema = JSON.parse(JSON.stringify(manifestJsonSchema()));

  it('in the folder is the one that the manifest’s schema gives; `npm run schema` prints it', async () => {
    expect(await readFile(join(FOLDER, 'manifest.schema.json'), 'utf8')).toBe(`${JSON.stringify(schema, null, 2)}\n`);
  });

  it.each(SAMPLES)('fits %s', async (name) => {
    const manifest = JSON.parse(await readFile(join(FOLDER, name), 'utf8'));
    const asZod = z.fromJSONSchema(schema);
    expect(asZod.safeParse(manifest).error).toBeUndefined();
    expect(asZod.safeParse({ ...manifest, stepps: {} }).success).toBe(false);
  });

  it('closes structural objects and offers closed lists', () => {
    expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(schema.required).toEqual(['id', 'version']);
    expect(schema.additionalProperties).toBe(false);
    expect(schema.properties.steps.additionalProperties).toEqual({ $ref: '#/$defs/step' });
    const { step } = schema.$defs;
    expect(step.additionalProperties).toBe(false);
    expect(step.properties.runAfter.additionalProperties.anyOf[0].items.enum).toEqual([
      'Succeeded',
      'Failed',
      'Skipped',
    ]);
    const webhook = schema.properties.triggers.additionalProperties.oneOf[2].properties.inputs;
    expect(webhook.properties.webhookEnforcementMode.enum).toEqual(['Off', 'Audit', 'Enforce']);
    expect(webhook.properties.webhookIpAllowList.anyOf.map((each: { type: string }) => each.type)).toEqual([
      'array',
      'string',
    ]);
  });
});
