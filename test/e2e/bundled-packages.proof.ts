import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { SMTPServer } from '../oracles/smtp.ts';
import { runCli } from './cli.ts';
import { createWorkspace, githubManifest, startService, type Workspace } from './service.ts';

// The bundle leaves out what nothing calls of a package, so what it holds is asked to work as it stands there.

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
    for (const request of collector.received)
      expect(request).toMatchObject({ path: expect.stringMatching(path), type });
    const bodies = Buffer.concat(collector.received.map(({ body }) => body)).toString('latin1');
    expect(bodies).toContain('flow.webhook.receive');
    expect(bodies).toContain('service.name');
  });
});

interface Exported {
  readonly path: string;
  readonly type: string;
  readonly body: Buffer;
}

/** What stands for a collector on this machine. */
async function startCollector(protocol: string): Promise<{ readonly url: string; readonly received: Exported[] }> {
  const received: Exported[] = [];
  const keep = (path = '', type = '', pieces: readonly Buffer[] = []) =>
    received.push({ path, type: type.replace(/[;+].*/, ''), body: Buffer.concat(pieces) });
  const server =
    protocol === 'grpc'
      ? createHttp2Server().on('stream', (stream, headers) => {
          const pieces: Buffer[] = [];
          stream.on('data', (piece: Buffer) => pieces.push(piece));
          stream.on('end', () => {
            keep(headers[':path'], headers['content-type'], pieces);
            stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
            stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
            // One message, not compressed, without a byte.
            stream.end(Buffer.alloc(5));
          });
        })
      : createServer((request, response) => {
          const pieces: Buffer[] = [];
          request.on('data', (piece: Buffer) => pieces.push(piece));
          request.on('end', () => {
            keep(request.url, request.headers['content-type'], pieces);
            response.end();
          });
        });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

it('the built command sends a mail', async () => {
  const mails: string[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, _session, done) {
      const pieces: Buffer[] = [];
      stream.on('data', (piece: Buffer) => pieces.push(piece));
      stream.on('end', () => {
        mails.push(Buffer.concat(pieces).toString());
        done();
      });
    },
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.server.address() as AddressInfo;
  const target = {
    type: 'smtp',
    host: '127.0.0.1',
    port,
    security: 'none',
    from: 'a@example.com',
    to: ['b@example.com'],
  };
  await writeFile(join(workspace.folder, 'alerts.json'), JSON.stringify({ targets: { mail: target } }));
  const { code, stdout, stderr } = await runCli(workspace, ['alert', 'test'], {
    env: { SLUICE_ALERTS: 'alerts.json', SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  expect({ code, stdout, stderr }).toMatchObject({ code: 0, stdout: expect.stringContaining('delivered'), stderr: '' });
  expect(mails).toEqual([expect.stringMatching(/^From: a@example\.com\r\nTo: b@example\.com\r\n/m)]);
});
