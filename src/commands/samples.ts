/** Something a publisher would really send, for trying a trigger out. */
export interface Sample {
  readonly body: Buffer;
  readonly contentType: string;
  /** Further headers, sent with those of the signature. */
  readonly headers: Readonly<Record<string, string>>;
}

const GITHUB_PUSH = {
  ref: 'refs/heads/main',
  before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
  after: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5',
  repository: { id: 186853002, name: 'hello-world', full_name: 'octocat/hello-world', private: false },
  pusher: { name: 'octocat', email: 'octocat@example.com' },
  commits: [{ id: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5', message: 'Update README', author: { name: 'octocat' } }],
};

const STRIPE_PAYMENT = {
  id: 'evt_1Pgc76DZ',
  object: 'event',
  type: 'payment_intent.succeeded',
  livemode: false,
  data: { object: { id: 'pi_3Pgc75', object: 'payment_intent', amount: 4200, currency: 'eur', status: 'succeeded' } },
};

const SLACK_MENTION = {
  type: 'event_callback',
  team_id: 'T061EG9R6',
  event_id: 'Ev9UQ52YNA',
  event: { type: 'app_mention', user: 'U061F7AUR', text: 'ship it', channel: 'C0LAN2Q65', ts: '1515449522.000016' },
};

const SHOPIFY_ORDER = { id: 820982911946154, name: '#9999', currency: 'USD', total_price: '403.00', line_items: [] };

const MAILGUN_EVENT = {
  'event-data': { event: 'opened', id: 'ase7i2zsRYeDXztHGENqRA', recipient: 'alice@example.com' },
};

const META_MESSAGE = {
  object: 'whatsapp_business_account',
  entry: [{ id: '102290129340398', changes: [{ field: 'messages', value: { messaging_product: 'whatsapp' } }] }],
};

const DISCORD_COMMAND = {
  id: '846462639134605312',
  application_id: '845027738276462632',
  type: 2,
  data: { id: '846462639134605313', name: 'deploy', type: 1 },
};

const TWITCH_FOLLOW = {
  subscription: { id: 'f1c2a387-161a-49f9-a165-0f21d7a4e1c4', type: 'channel.follow', version: '2', status: 'enabled' },
  event: { user_id: '1337', user_login: 'awesome_user', broadcaster_user_login: 'cooler_user' },
};

const TRELLO_CARD = {
  action: { id: '51f9424bcd6e040f3c002412', type: 'updateCard', data: { card: { name: 'Ship it' } } },
  model: { id: '4eea4ffc91e31d174600004a', name: 'Trello Development' },
};

const ASANA_CHANGE = {
  events: [{ action: 'changed', resource: { gid: '1337', resource_type: 'task' }, change: { field: 'completed' } }],
};

const ANYTHING = { message: 'hello from sluice send' };

const json = (value: object, headers: Readonly<Record<string, string>> = {}): Sample => ({
  body: Buffer.from(JSON.stringify(value)),
  contentType: 'application/json',
  headers,
});

const SAMPLES: Readonly<Record<string, Sample>> = {
  GitHub: json(GITHUB_PUSH, { 'x-github-event': 'push' }),
  GitHubLegacy: json(GITHUB_PUSH, { 'x-github-event': 'push' }),
  Stripe: json(STRIPE_PAYMENT),
  Slack: json(SLACK_MENTION),
  Shopify: json(SHOPIFY_ORDER, {
    'x-shopify-topic': 'orders/create',
    'x-shopify-shop-domain': 'example.myshopify.com',
  }),
  Mailgun: json(MAILGUN_EVENT),
  Meta: json(META_MESSAGE),
  Discord: json(DISCORD_COMMAND),
  Twitch: json(TWITCH_FOLLOW, { 'twitch-eventsub-message-type': 'notification' }),
  Trello: json(TRELLO_CARD),
  Asana: json(ASANA_CHANGE),
  Twilio: {
    body: Buffer.from('AccountSid=AC123&Body=Hello+there&From=%2B14155550100&MessageSid=SM123&To=%2B14155550199'),
    contentType: 'application/x-www-form-urlencoded',
    headers: {},
  },
};

export function sampleOf(schemeName: string | undefined): Sample {
  return SAMPLES[schemeName ?? ''] ?? json(ANYTHING);
}
