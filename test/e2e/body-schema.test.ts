import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { schemaOf } from '../../src/features/infer-schema/command.ts';
import { compileBodySchema } from '../../src/manifest/body-schema.ts';
import type { Json } from '../../src/model/json.ts';
import { gateChain } from '../../src/webhooks/gates/index.ts';
import { sampleDelivery, sampleSettings, sampleTrigger } from '../webhooks/samples.ts';
import { runCli } from './cli.ts';
import { getJson, written } from './service.ts';
import { useService } from './used-service.ts';

const SCHEMA = { type: 'object', required: ['total'], properties: { total: { type: 'number' } } };

function manifest(slug: string, id: string, inputs: object) {
  return {
    id: `0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a${id}`,
    name: slug,
    version: '1',
    triggers: {
      hook: { type: 'webhook', inputs: { webhookSlug: slug, webhookEnforcementMode: 'Enforce', ...inputs } },
    },
    steps: { only: { type: 'NoOp' } },
  };
}

const { workspace, service, ...api } = useService(async ({ folder, writeManifest }) => {
  await writeFile(join(folder, 'manifests', 'order.schema'), JSON.stringify(SCHEMA));
  await writeManifest('enforced.json', manifest('enforced', '01', { webhookBodySchema: SCHEMA }));
  const audited = { webhookBodySchema: 'file:order.schema', webhookEnforcementMode: 'Audit' };
  await writeManifest('audited.json', manifest('audited', '02', audited));
  const slack = { webhookSignatureScheme: 'Slack', webhookHmacKey: 'a key', webhookBodySchema: SCHEMA };
  await writeManifest('slack.json', manifest('slack', '03', { ...slack, webhookEnforcementMode: 'Audit' }));
});

const post = (slug: string, body: unknown) => api.post(`webhook/${slug}`, body);

async function newest() {
  const [first] = await getJson<readonly object[]>(`${service.url}/flows/api/webhooks/recent?take=1`);
  return first;
}

describe('webhookBodySchema', () => {
  it('under Enforce refuses what does not fit with 422, without telling the sender where', async () => {
    expect(await post('enforced', { total: 1, more: [] })).toMatchObject({ status: 200 });
    const { status, body } = await post('enforced', { total: 'sw0rdfish' });
    expect({ status, reason: body.reason }).toEqual({ status: 422, reason: 'body_schema' });
    expect(JSON.stringify(body)).not.toContain('total');
    expect(await newest()).toMatchObject({
      runId: null,
      violations: ['body_schema'],
      detail: '/total must be number',
    });
    await written(service, '"eventId":4012');
  });

  it('under Audit lets it in and tells, the schema read from a file', async () => {
    expect(await post('audited', {})).toMatchObject({ status: 200 });
    expect(await newest()).toMatchObject({
      violations: ['body_schema'],
      detail: "the body must have required property 'total'",
    });
  });

  it('does not ask it of a publisher’s handshake', async () => {
    const answer = await post('slack', { type: 'url_verification', challenge: 'abc' });
    expect(answer.status).not.toBe(422);
  });

  it('refuses a manifest whose schema is none, at load', async () => {
    const broken = join(workspace.folder, 'broken');
    await mkdir(broken);
    const text = JSON.stringify(manifest('broken', '04', { webhookBodySchema: { type: 'objekt' } }));
    await writeFile(join(broken, 'broken.json'), text);
    const { code, stdout, stderr } = await runCli(workspace, ['check', 'broken']);
    expect(code).not.toBe(0);
    expect(`${stdout}${stderr}`).toMatch(/webhookBodySchema.*is not a usable JSON Schema/s);
  });

  it('lets nothing pass where the schema of a stored revision can no longer be read', () => {
    const trigger = sampleTrigger({}, { bodySchema: { error: 'the file order.schema cannot be read: ENOENT' } });
    const gate = gateChain().find(({ name }) => name === 'bodySchema');
    expect(gate?.prepare(trigger, sampleSettings())?.check(sampleDelivery(), {})).toMatchObject({
      passed: false,
      reason: 'verifier_error',
    });
  });

  it('`sluice schema infer` proposes one from the stored deliveries', async () => {
    await post('enforced', { total: 2.5, note: null });
    const file = join(workspace.folder, 'inferred.json');
    const written = await runCli(workspace, ['schema', 'infer', 'enforced', '--to', service.url, '-o', file]);
    expect(written).toMatchObject({ code: 0, stdout: '' });
    const { stdout } = await runCli(workspace, ['schema', 'infer', 'enforced', '--to', service.url]);
    expect(JSON.parse(stdout)).toEqual({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { total: { type: 'number' }, note: { type: 'null' }, more: { type: 'array' } },
      required: ['total'],
    });
  });

  it('whatever the bodies, each fits the schema that is inferred from them', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { minLength: 1, maxLength: 5 }), (bodies) => {
        const judge = compileBodySchema(schemaOf(bodies as Json[]));
        if ('error' in judge) throw new Error(judge.error);
        for (const body of bodies) {
          expect(judge.mistakesIn(Buffer.from(JSON.stringify(body)), { contentType: 'application/json' })).toEqual([]);
        }
      }),
      { numRuns: 20 },
    );
  });
});
