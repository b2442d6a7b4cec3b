import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { eventually } from '../eventually.ts';
import { type Gateway, NOW, type Sent, startGateway } from '../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const FLOW = '5d0c1f7e-91a4-4b0b-8f0d-6a2f6f0c7e55';

async function open(inputs: WebhookInputs, searchKeys: object): Promise<Gateway> {
  const expression = (text: string) => `\${${text}}`;
  const manifest = {
    id: FLOW,
    name: 'documents',
    version: '1',
    triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'hook', ...inputs }, searchKeys } },
    steps: {
      read: {
        type: 'Transform',
        inputs: { value: { body: expression('trigger.body'), envelope: expression('trigger.envelope') } },
      },
    },
  };
  return startGateway({ triggers: {}, others: { documents: manifest } });
}

async function send({ deliver, get }: Gateway, sent: Sent) {
  const { status, text } = await deliver('hook', sent);
  const answer = JSON.parse(text);
  if (status !== 200 || answer.duplicate === true || answer.filtered === true) return { status, ...answer };
  const url = `/flows/api/runs/${answer.runId}`;
  const isDone = (run: { status: string }) => run.status === 'Succeeded';
  const run = await eventually(
    async (): Promise<{ status: string; searchKeys: object }> => JSON.parse(await get(url)),
    isDone,
  );
  return { status, searchKeys: run.searchKeys, read: JSON.parse(await get(`${url}/steps/read/output`)) };
}

const hex = (text: string) => createHmac('sha256', KEY).update(text).digest('hex');
const formOf = (fields: Record<string, string>) => new URLSearchParams(fields).toString();

describe('the document in a form of GitHub', () => {
  const push = (event: object): Sent => {
    const body = formOf({ payload: JSON.stringify(event) });
    const id = { 'x-github-event': 'issues', 'x-github-delivery': 'id-1' };
    return { body, headers: { ...FORM, ...id, 'x-hub-signature-256': `sha256=${hex(body)}` } };
  };

  it('is the body for filter, event id, search key and flow, and the form is beside it', async () => {
    const gateway = await open(
      {
        webhookSignatureScheme: 'GitHub',
        webhookHmacKey: KEY,
        webhookWhen: "body.action == 'opened'",
        webhookEventId: 'string(body.issue.id)',
      },
      { issue: 'body.issue.number', raw: 'size(envelope.payload)' },
    );
    const event = { action: 'opened', issue: { id: 73464126, number: 73 } };
    expect(await send(gateway, push(event))).toEqual({
      status: 200,
      searchKeys: expect.objectContaining({ issue: '73', raw: String(JSON.stringify(event).length) }),
      read: { body: event, envelope: { payload: JSON.stringify(event) } },
    });
    expect(await send(gateway, push({ issue: event.issue, action: 'opened' }))).toMatchObject({ duplicate: true });
    expect(await send(gateway, push({ ...event, action: 'closed', issue: { id: 1, number: 1 } }))).toMatchObject({
      filtered: true,
    });
  });

  it('is not looked for in JSON, and no header of the sender names it', async () => {
    const gateway = await open({ webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY }, {});
    const body = JSON.stringify({ payload: '{"a":1}' });
    const headers = { 'content-type': 'application/json', 'sluice-document': 'payload' };
    const sent = { body, headers: { ...headers, 'x-hub-signature-256': `sha256=${hex(body)}` } };
    expect(await send(gateway, sent)).toMatchObject({ read: { body: JSON.parse(body), envelope: JSON.parse(body) } });
  });
});

it('reads the document of a button of Slack, and a slash command as the form that it is', async () => {
  const gateway = await open(
    {
      webhookSignatureScheme: 'Slack',
      webhookHmacKey: KEY,
      webhookWhen: "!has(body.actions) || body.actions[0].action_id == 'approve'",
    },
    { user: 'has(body.user) ? body.user.id : body.user_id' },
  );
  const signed = (fields: Record<string, string>): Sent => {
    const body = formOf(fields);
    const time = String(Math.floor(NOW / 1000));
    const headers = {
      ...FORM,
      'x-slack-request-timestamp': time,
      'x-slack-signature': `v0=${hex(`v0:${time}:${body}`)}`,
    };
    return { body, headers };
  };
  const pressed = (action: string) => ({
    type: 'block_actions',
    user: { id: 'U0CA5', username: 'Amy' },
    actions: [{ action_id: action, block_id: '=qXel', type: 'button', value: 'click_me_123' }],
  });
  expect(await send(gateway, signed({ payload: JSON.stringify(pressed('approve')) }))).toMatchObject({
    searchKeys: { user: 'U0CA5' },
    read: { body: pressed('approve') },
  });
  expect(await send(gateway, signed({ payload: JSON.stringify(pressed('deny')) }))).toMatchObject({ filtered: true });
  const command = { command: '/weather', text: '94070', user_id: 'U2147483697' };
  expect(await send(gateway, signed(command))).toMatchObject({
    searchKeys: { user: 'U2147483697' },
    read: { body: command, envelope: command },
  });
});

describe('the document in a message of Amazon SNS', () => {
  // The gates have their own tests; here the trigger only watches.
  const SNS: WebhookInputs = {
    webhookEnforcementMode: 'Off',
    webhookSignatureScheme: 'AmazonSns',
    webhookHmacKey: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
  };
  const notification = (message: string) => ({
    Type: 'Notification',
    MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
    TopicArn: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
    Subject: 'My First Message',
    Message: message,
    Timestamp: '2012-05-02T00:54:06.655Z',
    SignatureVersion: '1',
  });
  const post = (value: object): Sent => ({
    body: JSON.stringify(value),
    headers: { 'content-type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
  });

  it('is the body for filter, search key and flow; type and id of the event are those of the message', async () => {
    const gateway = await open(
      { ...SNS, webhookWhen: "body.Records[0].eventName.startsWith('ObjectCreated')" },
      { key: 'body.Records[0].s3.object.key' },
    );
    const records = (eventName: string) => ({ Records: [{ eventName, s3: { object: { key: 'a.txt' } } }] });
    const created = notification(JSON.stringify(records('ObjectCreated:Put')));
    expect(await send(gateway, post(created))).toEqual({
      status: 200,
      searchKeys: { event: 'Notification', id: created.MessageId, key: 'a.txt' },
      read: { body: records('ObjectCreated:Put'), envelope: created },
    });
    const removed = notification(JSON.stringify(records('ObjectRemoved:Delete')));
    expect(await send(gateway, post(removed))).toMatchObject({ filtered: true });
  });

  it('is a text where it is no JSON', async () => {
    const gateway = await open(SNS, {});
    const hello = notification('Hello world!');
    expect(await send(gateway, post(hello))).toMatchObject({ read: { body: 'Hello world!', envelope: hello } });
  });
});

it('reads the data of a message of Pub/Sub by expressions, in filter, event id and search key', async () => {
  const data = 'json(base64Decode(body.message.data))';
  const gateway = await open(
    { webhookWhen: `${data}.a == 1`, webhookEventId: `string(${data}.id)` },
    { id: `${data}.id` },
  );
  const message = (value: object) => ({
    message: {
      attributes: { key: 'value' },
      data: Buffer.from(JSON.stringify(value)).toString('base64'),
      messageId: '2070443601311540',
      publishTime: '2021-02-26T19:13:55.749Z',
    },
    subscription: 'projects/myproject/subscriptions/mysubscription',
  });
  const post = (value: object): Sent => ({
    body: JSON.stringify(message(value)),
    headers: { 'content-type': 'application/json' },
  });
  expect(await send(gateway, post({ a: 1, id: 'e1' }))).toMatchObject({ status: 200, searchKeys: { id: 'e1' } });
  expect(await send(gateway, post({ id: 'e1', a: 1 }))).toMatchObject({ duplicate: true });
  expect(await send(gateway, post({ a: 2, id: 'e2' }))).toMatchObject({ filtered: true });
});
