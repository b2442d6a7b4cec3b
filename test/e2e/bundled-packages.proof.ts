import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { mailServer } from '../features/alerts/mail-server.ts';
import { type Received, serve } from '../flows/handlers/loopback-server.ts';
import { runCli } from './cli.ts';
import { createWorkspace, githubManifest, startService, type Workspace } from './service.ts';

// The bundle omits unused parts of packages, so these tests check that the bundled parts work.

let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
});

describe('the built service sends its spans', () => {
  it.each([
    ['http/protobuf', /^\/v1\/traces$/, 'application/x-protobuf'],
    ['http/json', /^\/v1\/traces$/, 'application/json'],
    ['grpc', /^\/opentelemetry\.proto\.collector\.trace\.v1\.TraceService\/Export$/, 'application/grpc'],
  ])('by %s', async (protocol, path, type) => {
    const collector = await startCollector(protocol);
    const service = await startService(workspace, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
    });
    const answer = await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(200);
    await service.stop('SIGTERM');
    expect(collector.received.length).toBeGreaterThan(0);
    for (const { url, headers } of collector.received) {
      expect(url).toMatch(path);
      expect(headers['content-type']?.replace(/[;+].*/, '')).toBe(type);
    }
    const bodies = Buffer.concat(collector.received.map(({ body }) => body)).toString('latin1');
    expect(bodies).toContain('flow.webhook.receive');
    expect(bodies).toContain('service.name');
  });
});

/** A local server in place of a collector. */
async function startCollector(protocol: string): Promise<{ readonly url: string; readonly received: Received[] }> {
  if (protocol !== 'grpc') {
    const { origin, received } = await serve((_, response) => response.end());
    return { url: origin, received };
  }
  const received: Received[] = [];
  const server = createServer().on('stream', async (stream, headers) => {
    received.push({ method: headers[':method'], url: headers[':path'], headers, body: await buffer(stream) });
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    // One empty message, not compressed.
    stream.end(Buffer.alloc(5));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

it('the built command sends a mail', async () => {
  const { mails, target } = await mailServer();
  const own = { ...target, security: 'none', from: 'a@example.com', to: ['b@example.com'] };
  await writeFile(join(workspace.folder, 'alerts.json'), JSON.stringify({ targets: { mail: own } }));
  const { code, stdout, stderr } = await runCli(workspace, ['alert', 'test'], {
    env: { SLUICE_ALERTS: 'alerts.json', SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  expect({ code, stdout, stderr }).toMatchObject({ code: 0, stdout: expect.stringContaining('delivered'), stderr: '' });
  expect(mails.map(({ text }) => text)).toEqual([
    expect.stringMatching(/^From: a@example\.com\r\nTo: b@example\.com\r\n/m),
  ]);
});

it('the built command reads a traffic policy of ngrok in JSON, and says how to convert YAML', async () => {
  const policy = { on_http_request: [{ actions: [{ type: 'verify-webhook', config: { provider: 'slack' } }] }] };
  const read = (input: string) => runCli(workspace, ['new', '--from', 'ngrok', '-', '--slug', 'slack'], { input });
  expect(await read(JSON.stringify(policy))).toMatchObject({ code: 0, stderr: '' });
  const yaml = 'on_http_request:\n  - actions:\n      - type: verify-webhook\n        config: { provider: slack }\n';
  const stderr = 'standard input: has no JSON object or list; convert YAML with: npx js-yaml@4 FILE.yml > FILE.json\n';
  expect(await read(yaml)).toMatchObject({ code: 2, stderr });
});

it('the built command checks expressions, which have no optional values', async () => {
  // The shared one has manifests of other tests, whose secrets `check` misses.
  const own = await createWorkspace();
  onTestFinished(() => own.remove());
  const inputs = (expression: string) => ({ first: { type: 'LogMessage', inputs: { message: `\${${expression}}` } } });
  const write = (expression: string) => own.writeManifest('push.json', githubManifest({ steps: inputs(expression) }));
  await write('[trigger.body].map(x, x.orValue(1))');
  expect(await runCli(own, ['check'])).toMatchObject({ code: 2, stdout: expect.stringContaining('dyn.orValue') });
  await write('[timestamp("2026-01-02T03:04:05Z") + duration("1h")].filter(x, x.getHours() == 4 && "a".matches("a"))');
  expect(await runCli(own, ['check'])).toMatchObject({ code: 0 });
});
