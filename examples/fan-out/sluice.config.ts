import { defineConfig } from '@sluicehq/sluice';
import { handlers } from './handlers.ts';

export default defineConfig({ handlers });
