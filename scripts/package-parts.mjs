// Smaller replacements in the bundle for packages and files of which we use little: the rest would only add weight.
// Omitted parts have no value, so that code which needs one after all fails at once.
import { createRequire } from 'node:module';
import { brotliCompressSync } from 'node:zlib';

const nothing = 'export default undefined;';
const none = 'module.exports = {};';

/** Empty replacements: the build fails if a module in `src` imports what they replace. */
export const OMITTED = new Set([nothing, none]);
const require = createRequire(import.meta.url);
const {
  ATTR_OTEL_SCOPE_NAME,
  ATTR_OTEL_SCOPE_VERSION,
  ATTR_SERVICE_NAME,
} = require('@opentelemetry/semantic-conventions');

/** A module's bytes, compressed: no archive can pack their base64 well. */
const packed = (name) => `
  const bytes = Buffer.from('${brotliCompressSync(require(name)).toString('base64')}', 'base64');
  module.exports = require('node:zlib').brotliDecompressSync(bytes);
`;

/** Replacements by package, or by file in a package without `.js`; a comment above each says why. */
export const PARTS_OF_PACKAGES = {
  // Only the client's agent, with its `request`; all of it would add 160 kB to the package.
  undici: `
    import Agent from 'undici/lib/dispatcher/agent.js';
    import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';
    import api from 'undici/lib/api/index.js';
    Object.assign(Dispatcher.prototype, api);
    export { Agent };
  `,
  // The HTTP parser.
  'undici/lib/llhttp/llhttp-wasm': packed('undici/lib/llhttp/llhttp-wasm.js'),
  // If this build does not compile, undici parses with the other one, which runs on every processor.
  'undici/lib/llhttp/llhttp_simd-wasm': 'module.exports = Buffer.alloc(0);',
  // HTTP/2, which our agent does not speak.
  'undici/lib/dispatcher/client-h2': 'module.exports = undefined;',
  // Makes bodies from forms and iterables; ours are buffers and streams.
  'undici/lib/web/fetch/body': none,

  // graphile-worker uses it to find a configuration in the working directory; ours is given in code.
  cosmiconfig: 'export const cosmiconfigSync = () => ({ search: () => null });',
  // Reads payloads in a file of cron jobs; ours are given in code.
  json5: nothing,
  // pg's other client, over a system library.
  'pg/lib/native/index': none,

  // We send only spans; when loaded, the SDK also imports the senders of metrics and logs, and its file reader.
  '@opentelemetry/sdk-node/build/src/start': none,
  '@opentelemetry/sdk-metrics': none,
  '@opentelemetry/exporter-prometheus': none,
  '@opentelemetry/sdk-logs': 'exports.LoggerProvider = class { shutdown() {} };',
  '@opentelemetry/exporter-logs-otlp-grpc': none,
  '@opentelemetry/exporter-logs-otlp-http': none,
  '@opentelemetry/exporter-logs-otlp-proto': none,
  '@opentelemetry/exporter-metrics-otlp-grpc': none,
  '@opentelemetry/exporter-metrics-otlp-http': none,
  '@opentelemetry/exporter-metrics-otlp-proto': none,
  '@opentelemetry/otlp-transformer/build/esm/logs/json/index': none,
  '@opentelemetry/otlp-transformer/build/esm/logs/protobuf/index': none,
  '@opentelemetry/otlp-transformer/build/esm/metrics/json/index': none,
  '@opentelemetry/otlp-transformer/build/esm/metrics/protobuf/index': none,
  // Wraps other packages; the SDK passes it an empty list.
  '@opentelemetry/instrumentation': 'export const registerInstrumentations = () => () => {};',
  // Hundreds of names of attributes, of which modules that are no ES modules read these.
  '@opentelemetry/semantic-conventions/dist/index.cjs': `
    module.exports = new Proxy(${JSON.stringify({ ATTR_OTEL_SCOPE_NAME, ATTR_OTEL_SCOPE_VERSION, ATTR_SERVICE_NAME })}, {
      get(names, name) {
        if (Object.hasOwn(names, name) || !/^[A-Z]/.test(String(name))) return names[name];
        throw new Error(name + ' is not in the bundle: scripts/package-parts.mjs omits it');
      },
    });
  `,
  // Reads the definition of a grpc diagnostic service, which we do not offer.
  '@grpc/proto-loader': none,
  // Counts what grpc does, for another such service.
  '@grpc/grpc-js/build/src/channelz': `
    class Uncounted {
      addTrace() {} refChild() {} unrefChild() {} addCallStarted() {} addCallSucceeded() {} addCallFailed() {}
    }
    for (const name of ['Trace', 'TraceStub', 'ChildrenTracker', 'ChildrenTrackerStub', 'CallTracker', 'CallTrackerStub'])
      exports['Channelz' + name] = Uncounted;
    const register = () => ({ id: 0, name: '' });
    Object.assign(exports, { registerChannelzChannel: register, registerChannelzSubchannel: register });
    Object.assign(exports, { registerChannelzSocket: register, unregisterChannelzRef() {}, setup() {} });
  `,
  // A grpc server, and load balancers that we do not use.
  '@grpc/grpc-js/build/src/admin': 'exports.registerAdminService = () => {};',
  '@grpc/grpc-js/build/src/server': none,
  '@grpc/grpc-js/build/src/server-credentials': none,
  '@grpc/grpc-js/build/src/server-interceptors': none,
  '@grpc/grpc-js/build/src/load-balancer-outlier-detection': 'exports.setup = () => {};',
  '@grpc/grpc-js/build/src/load-balancer-weighted-round-robin': 'exports.setup = () => {};',

  // Finds an attachment's type by its name; our mail has no attachments.
  'nodemailer/dist/esm/mime-funcs/mime-types': 'export const detectMimeType = undefined, detectExtension = undefined;',
  // Signs, fetches, and sends in other ways than SMTP over a given connection.
  'nodemailer/dist/esm/dkim/index': nothing,
  'nodemailer/dist/esm/fetch/index': nothing,
  'nodemailer/dist/esm/json-transport/index': nothing,
  'nodemailer/dist/esm/sendmail-transport/index': nothing,
  'nodemailer/dist/esm/ses-transport/index': nothing,
  'nodemailer/dist/esm/smtp-connection/http-proxy-client': nothing,
  'nodemailer/dist/esm/smtp-pool/index': nothing,
  'nodemailer/dist/esm/stream-transport/index': nothing,
  'nodemailer/dist/esm/well-known/index': nothing,
  'nodemailer/dist/esm/xoauth2/index': nothing,

  // Its own copy of ajv, which the bundle already has.
  '@modelcontextprotocol/server/dist/shimsNode.mjs': `
    export { default as process } from 'node:process';
    export const DefaultJsonSchemaValidator = undefined;
  `,

  // fastify checks its version for plugins; the lock file guarantees it.
  semver: 'module.exports = { gt: () => false, coerce: () => null, satisfies: () => true };',
  // fastify's default validator and serializer by schema; ours come from zod.
  '@fastify/ajv-compiler': 'module.exports = () => undefined;',
  '@fastify/fast-json-stringify-compiler': 'module.exports = () => undefined;',
  // For APIs in their own document, and in the format before OpenAPI.
  '@fastify/swagger/lib/mode/static': none,
  '@fastify/swagger/lib/spec/swagger/index': none,
  // Logs that a thread or another file writes.
  'pino/lib/transport': 'module.exports = undefined;',
  // A metric of quantiles; we have none.
  'prom-client/lib/summary': none,
  // Pushes metrics, and sums them over the processes of one machine.
  'prom-client/lib/pushgateway': none,
  'prom-client/lib/cluster': none,
  // The browser's log.
  'debug/src/browser': none,
  // The same release as ajv's.
  'json-schema-resolver/node_modules/fast-uri/index':
    "module.exports = require('../../../ajv/node_modules/fast-uri/index.js');",
  // @fastify/swagger writes YAML with it; we answer only JSON.
  yaml: nothing,
  // Calls a fastify server without a socket, which only tests do.
  'light-my-request': nothing,

  // Optional values of CEL, which our expressions do not have.
  '@marcbachmann/cel-js/lib/optional': `
    export class Optional {}
    export const OPTIONAL_NONE = undefined, register = () => {}, toggleOptionalTypes = () => {};
  `,

  // zod's messages in 60 languages, of which the service and its `z` use one.
  'zod/v4/locales/index': "export { default as en } from './en.js';",
};
