import { part } from '../spec.ts';
import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_D_TO_G: readonly PublisherRow[] = [
  {
    name: 'Datadog',
    // Nothing is signed. Datadog sends the headers that you configure there; we chose the name of this one.
    header: 'X-Webhook-Token',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: '{field:event_type}',
    eventId: '{field:id}',
    sample:
      '{"id":"7512345678901234567","event_type":"metric_alert_monitor","title":"[Triggered] CPU high on web-1","body":"CPU above 90 %","last_updated":"1793610843000","date":"1793610843000","org":{"id":"123456","name":"Example"}}',
    clickPath: [
      'Open **Integrations**, **Webhooks** and press **New**.',
      'Enter a name and `{URL}`, and under **Custom Headers** `{"X-Webhook-Token": "…"}` with your key.',
      'Write `@webhook-NAME` into the message of each monitor that should call it.',
    ],
    keyIs: 'the value of `X-Webhook-Token` under **Custom Headers**',
    retries: {
      when: 'after 5xx, or if it cannot connect',
      howOften: 'up to 5 times where it cannot connect; for 5xx we found no number',
      source: 'https://docs.datadoghq.com/integrations/webhooks/, read 2026-11-29',
    },
    source: 'https://docs.datadoghq.com/integrations/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Deel',
    // The signed text begins with the word POST.
    header: 'x-deel-signature',
    signs: 'POST{body}',
    eventType: '{field:data.meta.event_type}',
    eventId: { none: 'only the type of the event and what it is about have one' },
    sample:
      '{"data":{"meta":{"event_type":"contract.created","event_type_id":"05de1d0e-5a57-4b1a-8a0a-0a1111111111","organization_name":"Acme"},"resource":[{"contract_id":"37nex2x","status":"in_progress"}]},"timestamp":"2026-11-27T15:39:38.070Z"}',
    clickPath: [
      'Open **Apps & Perks**, **Developer Center**, **Webhooks** and press **Create new webhook**.',
      'Enter `{URL}` and choose the events.',
      'Copy the signing key.',
    ],
    keyIs: 'the **signing key** of the webhook',
    retries: {
      when: 'if the answer is no 2xx',
      howOften: 'we found no number; after 10 failures in a row it disables the webhook',
      source: 'https://developer.deel.com/api/webhooks/introduction, read 2026-11-29',
    },
    source: 'https://developer.deel.com/v2.1.112/docs/webhooks-get-started, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Doppler',
    header: 'X-Doppler-Signature',
    form: 'sha256={signature}',
    keyIsChosen: true,
    eventType: '{field:type}',
    eventId: { none: 'only the config and its project have one' },
    sample:
      '{"type":"config.secrets.update","config":{"name":"dev_2","created_at":"2026-05-30T08:18:33.634Z","environment":"dev","project":"714faaa5958"},"project":{"id":"714faaa5958","name":"Backend"},"workplace":{"id":"fcd76","name":"Pied Piper"}}',
    clickPath: [
      'Open the project, **Webhooks** and press **+ Add**.',
      'Enter `{URL}` and choose the configs that trigger it.',
      'Enter your key as **signing secret**.',
    ],
    keyIs: 'the **signing secret** of the webhook; without one nothing is signed',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://docs.doppler.com/docs/webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'the prefix `sha256=` and hex are as several receivers of third parties have them; header and HMAC are documented',
  },
  {
    name: 'Dub',
    // The whole key signs, including whsec_.
    header: 'Dub-Signature',
    eventType: '{field:event}',
    eventId: '{field:id}',
    sample:
      '{"id":"evt_KleiO4HBwZFbO1vZLWIPZ2AtX","event":"link.created","createdAt":"2026-11-02T09:14:03.346Z","data":{"id":"cm0b87844000dismqhkviju54","domain":"dub.sh","key":"sOvvXDT","shortLink":"https://dub.sh/sOvvXDT","clicks":0}}',
    clickPath: [
      'Open **Settings**, **Webhooks** of the workspace and press **Create Webhook**.',
      'Enter a name and `{URL}`, choose the events and copy the **Signing secret**.',
      'Press **Create webhook**.',
    ],
    keyIs: 'the **Signing secret** of the webhook, all of its text',
    retries: {
      when: 'a delivery that failed',
      howOften: 'as its queue, QStash, does by default; after 20 failures in a row it disables the webhook',
      newlySigned: false,
      source: 'https://github.com/dubinc/dub (apps/web/lib/webhook), read 2026-11-29',
    },
    source: 'https://dub.co/docs/concepts/webhooks/verify-webhook-requests, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Dwolla',
    // The time in the body is the time of the event.
    header: 'X-Request-Signature-SHA-256',
    keyIsChosen: true,
    eventType: '{field:topic}',
    eventId: '{field:id}',
    sample:
      '{"id":"80d8ff7d-7e5a-4975-ade8-9e97306d6c15","resourceId":"36E9DCB2-889B-4873-8E52-0C9404EA002A","topic":"customer_created","timestamp":"2026-11-27T14:44:11.407Z","_links":{"self":{"href":"https://api.dwolla.com/events/80d8ff7d-7e5a-4975-ade8-9e97306d6c15"}}}',
    clickPath: [
      'Dwolla has no screen for this: send `POST https://api.dwolla.com/webhook-subscriptions` with `{URL}` as `url` and your key as `secret`.',
      'In the sandbox the dashboard shows what was sent.',
    ],
    keyIs: 'the `secret` of the webhook subscription',
    retries: {
      when: 'if there is no 2xx within 10 seconds',
      howOften: 'up to 8 times in 72 hours; after 400 failures and a day without success the subscription is paused',
    },
    source:
      'https://developers.dwolla.com/docs/balance/webhooks/frequently-asked-questions and https://developers.dwolla.com/guides/webhooks/validating-webhooks.html, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Finch',
    // Standard Webhooks with other header names. The key has no prefix whsec_.
    header: 'Finch-Signature',
    form: 'v1,{signature} ...',
    signs: '{id}.{timestamp}.{body}',
    encoding: 'base64',
    keyEncoding: 'base64',
    timestamp: 'Finch-Timestamp',
    id: 'Finch-Event-Id',
    eventType: '{field:event_type}',
    eventId: '{header:Finch-Event-Id}',
    sample:
      '{"connection_id":"4c8b9d3e-7f61-4a20-9b1d-2d5f7c9a6e01","event_type":"employment.updated","data":{"individual_id":"9a7c3d40-5ad3-4e4b-8ed9-9d6c0e3e0d10"}}',
    clickPath: [
      'Open **Webhooks** in the Finch dashboard and press **Add webhook**.',
      'Enter `{URL}`, choose the events and copy the **Secret**.',
    ],
    keyIs: 'the **Secret** of the webhook',
    retries: {
      when: 'a delivery that failed',
      howOften: 'with growing pauses; copies of its documentation name 5, 7 and 19 times',
      source: 'its documentation, as copies have it, read 2026-11-29',
    },
    source: 'https://www.npmjs.com/package/@tryfinch/finch-api 10.7.0 and its tests, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Forgejo',
    // Forgejo sends the headers of Gitea and GitHub too. Each delivery has its own id, even if it is sent again.
    header: 'X-Forgejo-Signature',
    keyIsChosen: true,
    eventType: '{header:X-Forgejo-Event}',
    eventId: { none: 'only the delivery has one, in X-Forgejo-Delivery, and a repeated one has another' },
    sample:
      '{"ref":"refs/heads/develop","before":"28e1879d029cb852e4844d9c718537df08844e03","after":"bffeb74224043ba2feb48d137756c8a9331c449a","repository":{"id":140,"full_name":"acme/web"},"pusher":{"login":"ada"}}',
    sampleHeaders: { 'x-forgejo-event': 'push' },
    clickPath: [
      'Open **Settings**, **Webhooks** of the repository, **Add webhook**, **Forgejo**.',
      'Enter `{URL}`, the method POST, the content type JSON, and your key as **Secret**.',
      'Choose the events, save and press **Test delivery**.',
    ],
    keyIs: 'the **Secret** of the webhook; without one nothing is signed',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://forgejo.org/docs/latest/user/webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'the form of the signature is as three receivers have it, and as Gitea, from which Forgejo comes, sends it',
  },
  {
    name: 'Framer',
    // Forms. The id of the submission, a UUID, follows the body without a separator.
    header: 'Framer-Signature',
    form: 'sha256={signature}',
    signs: [part.body, { ...part.header('framer-webhook-submission-id'), length: 36 }],
    keyIsChosen: true,
    eventType: { none: 'the body holds the fields of a form alone' },
    eventId: { none: 'only the submission has one, in Framer-Webhook-Submission-Id, which is signed' },
    sample: '{"Name":"Ada Example","Email":"ada@example.com","Message":"Hello"}',
    clickPath: [
      'Select the form on the canvas, press **Add…** next to **Send To**, and choose **Webhook**.',
      'Enter `{URL}` and your key, of 32 characters or more, as **Secret**.',
      'Publish the site and submit the form once.',
    ],
    keyIs: 'the **Secret** of the form’s webhook',
    retries: { when: 'if the answer is no 2xx', howOften: 'up to 5 times' },
    source: 'https://www.framer.com/help/articles/framer-form-webhook-setup, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'that the body comes before the id is as five receivers of third parties have it; the rest is documented',
  },
  {
    name: 'Front',
    // Webhooks of an application. Webhooks of rules are FrontRule.
    header: 'X-Front-Signature',
    signs: '{timestamp}:{body}',
    encoding: 'base64',
    timestamp: 'X-Front-Request-Timestamp',
    unit: 'milliseconds',
    eventType: '{field:type}',
    eventId: '{field:payload.id}',
    handshakes: [
      // Sent signed each time the settings of the webhook are saved.
      {
        name: 'x-front-challenge',
        method: 'POST',
        isSigned: true,
        when: ['{header:x-front-challenge}'],
        answer: { json: { challenge: '{header:x-front-challenge}' } },
      },
    ],
    sample:
      '{"type":"inbound_received","authorization":{"id":"cmp_abc"},"payload":{"id":"evt_55c8c149","type":"inbound","emitted_at":1795773600,"conversation":{"id":"cnv_55c8c149","subject":"Hello","status":"unassigned"}}}',
    clickPath: [
      'Open **Settings**, **Developers**, **Apps** and choose or create the app.',
      'Copy its signing key from **Basic information** and start Sluice with it.',
      'Add the feature **Webhooks**, enter `{URL}` and choose the events.',
    ],
    keyIs: 'the **signing key** of the app',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://dev.frontapp.com/docs/application-webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'the colon, SHA-256, base64 and the JSON answer are as two verifiers of third parties have them; the headers are documented',
  },
  {
    name: 'FrontRule',
    title: 'Front, rules',
    // The same header as for Front's apps, with another form and another key.
    header: 'X-Front-Signature',
    algorithm: 'sha1',
    encoding: 'base64',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":"evt_55c8c149","type":"inbound","emitted_at":1795773600,"conversation":{"id":"cnv_55c8c149","subject":"Hello"}}',
    clickPath: [
      'Open **Settings**, **Rules** and create a rule.',
      'Choose **Send to a webhook** as its action and enter `{URL}`.',
      'Copy the API secret of the company under **Settings**, **Developers**.',
    ],
    keyIs: 'the **API secret** of the company',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://dev.frontapp.com/docs/rule-webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Ghost',
    // The body comes first. With another number of digits, one could belong to the timestamp or to the body.
    header: 'X-Ghost-Signature',
    form: 'sha256={signature}, t={timestamp}',
    signs: '{body}{timestamp}',
    unit: 'milliseconds',
    timestampLength: 13,
    keyIsChosen: true,
    eventType: { none: 'neither header nor body names it: use a trigger for each' },
    eventId: { none: 'only what the event is about has one, such as post.current.id' },
    sample:
      '{"post":{"current":{"id":"6511a2f0c3b5e00001a1b2c3","title":"Hello","slug":"hello","status":"published"},"previous":{"status":"draft","published_at":null}}}',
    clickPath: [
      'Open **Settings**, **Integrations** in Ghost Admin and press **Add custom integration**.',
      'Press **Add webhook**, choose the event and enter `{URL}`.',
      'Enter your key as **Secret**.',
    ],
    keyIs: 'the **Secret** of the webhook; without one nothing is signed',
    retries: {
      when: 'after network errors, 408, 413, 429 and 5xx',
      howOften: 'up to 5 times; a 410 deletes the webhook',
      newlySigned: false,
    },
    source:
      'https://github.com/TryGhost/Ghost (ghost/core/core/server/services/webhooks/webhook-trigger.js), read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Gitea',
    // Gitea sends GitHub's headers too. A delivery that is sent again has another id.
    header: 'X-Gitea-Signature',
    keyIsChosen: true,
    eventType: '{header:X-Gitea-Event}',
    eventId: { none: 'only the delivery has one, in X-Gitea-Delivery, and a repeated one has another' },
    sample:
      '{"ref":"refs/heads/main","before":"28e1879d029cb852e4844d9c718537df08844e03","after":"bffeb74224043ba2feb48d137756c8a9331c449a","repository":{"id":140,"full_name":"gitea/webhooks"},"pusher":{"login":"gitea"}}',
    sampleHeaders: { 'x-gitea-event': 'push' },
    clickPath: [
      'Open **Settings**, **Webhooks** of the repository, **Add Webhook**, **Gitea**.',
      'Enter `{URL}`, the method **POST**, the content type **application/json** and your key as **Secret**.',
      'Choose the events, press **Add Webhook** and then **Test Delivery**.',
    ],
    keyIs: 'the **Secret** of the webhook; without one the signature is empty, which is refused',
    retries: {
      none: 'never; a delivery that failed is sent again by hand alone',
      source: 'https://github.com/go-gitea/gitea (services/webhook/deliver.go), read 2026-11-29',
    },
    note: 'With the content type of a form not the body is signed but its field `payload`: choose JSON. Gitea never retries by itself.',
    source:
      'https://docs.gitea.com/usage/repository/webhooks and https://github.com/go-gitea/gitea (services/webhook/deliver.go), read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'GoCardless',
    header: 'Webhook-Signature',
    keyIsChosen: true,
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample:
      '{"events":[{"id":"EV00BD05S5VM2T","created_at":"2026-11-02T09:14:03.404Z","resource_type":"payments","action":"confirmed","links":{"payment":"PM00AQ1XTGZ3E9"}}],"meta":{"webhook_id":"WB00BD05S5VM2T"}}',
    clickPath: [
      'Open **Developers**, **Webhook endpoints** and press **Create**, **Webhook endpoint**.',
      'Enter a name, `{URL}` and your key as **Secret**.',
      'Press **Create webhook endpoint** and send a test.',
    ],
    keyIs: 'the **Secret** of the webhook endpoint',
    retries: {
      when: 'if the answer is not 2xx within 10 seconds, or a redirect',
      howOften: 'up to 8 times at increasing intervals, such as 1, 2 and 10 minutes',
      source: 'https://support.gocardless.com/hc/en-nz/articles/360000989989-Webhook-retries-failures, read 2026-11',
    },
    source: 'https://developer.gocardless.com/resources/testing-webhooks and gocardless-nodejs 10.1.2, read 2026-11',
    certainty: 'vector',
  },
];
