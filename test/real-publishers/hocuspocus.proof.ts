// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { rm } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, type Service, startService, type Workspace } from '../e2e/service.ts';
import { deliveriesOf, deliveryThat, endedRun, installPrograms, type Publisher, startPublisher } from './publisher.ts';

/*
 * Hocuspocus, the server of a collaborative editor, signs its webhooks. We have no scheme for it: the fields of
 * `Custom` describe its documentation.
 */

const PACKAGES = [
  '@hocuspocus/server@4.7.0',
  '@hocuspocus/extension-webhook@4.1.0',
  '@hocuspocus/provider@4.8.0',
  'yjs@13.6.33',
];

const SERVER = `
import { Events, Webhook } from '@hocuspocus/extension-webhook';
import { Server } from '@hocuspocus/server';

const { WEBHOOK_URL: url, WEBHOOK_SECRET: secret } = process.env;
const events = [Events.onConnect, Events.onChange];
const webhook = new Webhook({ url, secret, events, debounce: false });
const server = new Server({ address: '127.0.0.1', port: 0, quiet: true, extensions: [webhook] });
await server.listen();
console.log('Hocuspocus listens on ' + server.httpServer.address().port);
`;

/** A person who opens a document and writes a paragraph. */
const EDITOR = `
import { HocuspocusProvider } from '@hocuspocus/provider';
import * as Y from 'yjs';

const [, , port, name, text] = process.argv;
let isWritten = false;
const provider = new HocuspocusProvider({
  url: 'ws://127.0.0.1:' + port,
  name,
  onSynced() {
    const paragraph = new Y.XmlElement('paragraph');
    paragraph.insert(0, [new Y.XmlText(text)]);
    provider.document.getXmlFragment('default').insert(0, [paragraph]);
    isWritten = true;
  },
  onUnsyncedChanges: ({ number }) => isWritten && number === 0 && console.log('The editor has written'),
  onAuthenticationFailed: () => console.log('The editor was refused'),
});
`;

const SECRET = 'a secret that Hocuspocus signs with';

const FLOW = {
  id: FLOW_ID,
  name: 'documents',
  version: '1',
  triggers: {
    documents: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'documents',
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Hocuspocus-Signature-256',
        webhookSignaturePrefix: 'sha256=',
        webhookHmacKey: SECRET,
        webhookEnforcementMode: 'Enforce',
        webhookWhen: "body.event == 'change'",
      },
      searchKeys: { document: 'body.payload.documentName' },
    },
  },
  steps: {
    text: {
      type: 'Transform',
      inputs: { value: '${trigger.body.payload.document.default.content[0].content[0].text}' },
    },
  },
};

const folder = await installPrograms(PACKAGES, { 'server.js': SERVER, 'editor.js': EDITOR });

let workspace: Workspace;
let service: Service;
let hocuspocus: Publisher | undefined;

async function startHocuspocus(secret: string): Promise<Publisher> {
  const env = { WEBHOOK_URL: `${service.url}/flows/api/webhook/documents`, WEBHOOK_SECRET: secret };
  hocuspocus = await startPublisher(process.execPath, ['server.js'], {
    cwd: folder ?? '',
    env,
    until: /^Hocuspocus listens on (\d+)$/,
  });
  return hocuspocus;
}

/** The result for a person who opens the document and writes in it. */
async function write(port: string, document: string, text: string): Promise<string> {
  const editor = await startPublisher(process.execPath, ['editor.js', port, document, text], {
    cwd: folder ?? '',
    until: /^The editor (.*)$/,
  });
  await editor.stop();
  return editor.found;
}

const isThere = describe.skipIf(folder === undefined);
isThere(`Hocuspocus${folder === undefined ? ' (no registry of npm can be reached)' : ''}`, () => {
  beforeAll(async () => {
    workspace = await createWorkspace();
    await workspace.writeManifest('documents.json', FLOW);
  });
  beforeEach(async () => {
    service = await startService(workspace, { SLUICE_DATABASE_URL: 'sqlite::memory:' });
  });
  afterEach(async () => {
    await hocuspocus?.stop();
    await service.stop('SIGTERM');
  });
  afterAll(async () => {
    await rm(folder ?? '', { recursive: true });
  });

  it('sends what somebody wrote: it is verified, found by its document, and read by a run', async () => {
    const { found: port } = await startHocuspocus(SECRET);
    expect(await write(port, 'minutes', 'Hello from an editor')).toBe('has written');
    const connected = await deliveryThat(service, ({ outcome }) => outcome === 'filtered');
    expect(connected).toMatchObject({ statusCode: 200, reason: null, runId: null });
    const changed = await deliveryThat(service, ({ runId }) => runId !== null);
    expect(changed).toMatchObject({ statusCode: 200, reason: null, searchKeys: { document: 'minutes' } });
    const run = await endedRun(service, changed.runId);
    expect(run).toMatchObject({ status: 'Succeeded', triggerBody: { event: 'change' } });
    expect(run.steps).toContainEqual(expect.objectContaining({ stepKey: 'text', output: 'Hello from an editor' }));
  });

  it('with another secret is refused, the refusal is recorded, and nobody may write', async () => {
    const { found: port, output } = await startHocuspocus('another secret than that');
    expect(await write(port, 'minutes', 'Hello')).toBe('was refused');
    for (const delivery of await deliveriesOf(service, 1)) {
      expect(delivery).toMatchObject({ statusCode: 401, reason: 'signature_mismatch', runId: null });
    }
    await eventually(output, (text) => text.includes('failed with status 401'));
  });
});
