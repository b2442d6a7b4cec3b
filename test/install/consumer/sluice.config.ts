import { defineConfig, defineHandler, z } from '@sluicehq/sluice';

const greet = defineHandler({
  type: 'Greet',
  inputs: z.object({ name: z.string() }),
  run: ({ inputs }) => ({ kind: 'succeeded', output: `Hello ${inputs.name}` }),
});

export default defineConfig({ enforcementMode: 'Enforce', handlers: [greet] });
